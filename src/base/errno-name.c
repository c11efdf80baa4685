#include "base/errno-name.h"

#include <stdio.h>

static const struct {
        int error;
        const char *name;
} names[] = {
#define E(e)                                                                                                           \
        { e, #e }
        E(EPERM),        E(ENOENT),          E(ESRCH),           E(EIO),          E(ENXIO),      E(E2BIG),
        E(EBADF),        E(ECHILD),          E(EAGAIN),          E(ENOMEM),       E(EACCES),     E(EFAULT),
        E(EBUSY),        E(EEXIST),          E(EXDEV),           E(ENODEV),       E(ENOTDIR),    E(EISDIR),
        E(EINVAL),       E(ENFILE),          E(EMFILE),          E(ENOTTY),       E(ETXTBSY),    E(EFBIG),
        E(ENOSPC),       E(ESPIPE),          E(EROFS),           E(EMLINK),       E(EPIPE),      E(ERANGE),
        E(ENAMETOOLONG), E(ENOSYS),          E(ENOTEMPTY),       E(ELOOP),        E(EOVERFLOW),  E(EUSERS),
        E(EAFNOSUPPORT), E(EPROTONOSUPPORT), E(ESOCKTNOSUPPORT), E(ENOPROTOOPT),  E(EOPNOTSUPP), E(EPROTO),
        E(ENETUNREACH),  E(EADDRNOTAVAIL),   E(EADDRINUSE),      E(ECONNREFUSED), E(ECONNRESET), E(ECONNABORTED),
        E(ETIMEDOUT),    E(EHOSTUNREACH),    E(ENOKEY),          E(ENODATA),      E(ENOTSOCK),   E(ETOOMANYREFS),
        E(ENOTCONN),     E(EISCONN),         E(EDQUOT),          E(EINPROGRESS),  E(ENETDOWN),   E(EINTR),
        E(ENOEXEC),      E(EKEYREJECTED),    E(EKEYEXPIRED),     E(ESTALE),       E(EMSGSIZE),   E(EDESTADDRREQ),
#undef E
};

const char *errno_name(int error, char *buf, size_t size) {
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (names[i].error == error)
                        return names[i].name;
        (void)snprintf(buf, size, "%d", error);
        return buf;
}

int errno_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (str_eq(names[i].name, name))
                        return names[i].error;
        return 0;
}
