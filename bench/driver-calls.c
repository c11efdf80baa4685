/* What a system call costs where this is run: nanoseconds of getpid, and of open and close of a file, the best of a few
 * rounds. For bench/drivers, inside and outside. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 5

static uint64_t now(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void get_pid(void) {
        (void)syscall(SYS_getpid);
}

static void open_file(void) {
        int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
                (void)close(fd);
}

/* The best round: the others were disturbed. */
static double measure(void (*call)(void), unsigned count) {
        uint64_t best = UINT64_MAX;

        for (unsigned i = 0; i < ROUNDS; i++) {
                uint64_t begin = now();

                for (unsigned k = 0; k < count; k++)
                        call();
                uint64_t spent = now() - begin;
                best = spent < best ? spent : best;
        }
        return (double)best / count;
}

int main(void) {
        (void)printf("getpid_ns=%.1f open_ns=%.1f\n", measure(get_pid, 2000), measure(open_file, 200));
        return 0;
}
