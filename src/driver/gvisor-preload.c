/* Loaded by the dynamic linker into every program of a gVisor box (stage-preload.c): the kernel of an older runsc does
 * not know AT_NO_AUTOMOUNT, and refuses the calls that name it, as those of `ls` and `stat` do. There are no automounts
 * in a box, so the flag is left out.
 *
 * It has to go with whatever libc an image has: nothing is linked to it, and `syscall` is the libc's that is there. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fstatat64(int folder, const char *path, struct stat64 *ret, int flags);

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict ret) {
        return (int)syscall(SYS_statx, folder, path, flags & ~AT_NO_AUTOMOUNT, mask, ret);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict ret, int flags) {
        return (int)syscall(SYS_newfstatat, folder, path, ret, flags & ~AT_NO_AUTOMOUNT);
}

int fstatat64(int folder, const char *path, struct stat64 *ret, int flags) {
        return (int)syscall(SYS_newfstatat, folder, path, ret, flags & ~AT_NO_AUTOMOUNT);
}
