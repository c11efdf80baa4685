/* What a file server keeps when it has its stream and its tree: the calls that it answers with, and the capabilities to
 * do so as whoever asks, over ids that its namespace has and no others. */
#include <linux/capability.h>
#include <sys/syscall.h>

#include "base/lockdown.h"
#include "driver/fuse-server.h"

static const int calls[] = {
        SYS_read,         SYS_write,      SYS_pread64,    SYS_pwrite64, SYS_openat,     SYS_close,
        SYS_lseek,        SYS_fstat,      SYS_newfstatat, SYS_statx,    SYS_fstatfs,    SYS_fcntl,
        SYS_getdents64,   SYS_readlinkat, SYS_unlinkat,   SYS_mkdirat,  SYS_mknodat,    SYS_symlinkat,
        SYS_linkat,       SYS_renameat2,  SYS_fchmodat,   SYS_fchownat, SYS_utimensat,  SYS_ftruncate,
        SYS_fallocate,    SYS_fsync,      SYS_fdatasync,  SYS_setfsuid, SYS_setfsgid,   SYS_geteuid,
        SYS_getegid,      SYS_munmap,     SYS_brk,        SYS_exit,     SYS_exit_group, SYS_restart_syscall,
        SYS_rt_sigreturn, SYS_umask,      SYS_pwritev2,
};

/* New memory is for data, whoever takes this over. */
static const struct lockdown_call tested[] = {
        {.call = SYS_mmap, .argument = 2, .test = LOCKDOWN_NONE_OF, .values = {4 /* PROT_EXEC */}, .count = 1}};

int fuse_server_confine(void) {
        const uint64_t keep = 1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH |
                              1ULL << CAP_FOWNER | 1ULL << CAP_FSETID | 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;
        int r = lockdown_bounding();

        if (r == 0)
                r = lockdown_keep_capabilities(keep);
        if (r == 0)
                r = lockdown_no_new_privileges();
        if (r == 0)
                r = lockdown_private();
        return r < 0 ? r : lockdown_calls(calls, ELEMENTSOF(calls), tested, ELEMENTSOF(tested));
}
