/* Prints the frequency of this machine's time stamp counter in kHz.
 *
 * QEMU without KVM shows its guest the host's counter, and a microvm has no timer to measure it with: the guest's
 * kernel must be told. /proc/cpuinfo names the present clock of a core, which is another number on most machines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static uint64_t nanoseconds(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(void) {
        uint64_t t0 = nanoseconds(), c0 = __rdtsc(), t1, c1;

        do
                t1 = nanoseconds();
        while (t1 - t0 < 100 * 1000 * 1000);
        c1 = __rdtsc();
        return printf("%" PRIu64 "\n", (c1 - c0) * 1000000 / (t1 - t0)) < 0;
}
