/* argv of stockade-pack, and its one line: "ok BYTES ENTRIES SKIPPED TEXT" or "error CODE TEXT". */
#include "disk/packer.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

static const struct {
        const char *name;
        size_t fds;
} verbs[] = {
        [PACKER_UNPACK] = {"unpack", 2}, [PACKER_IMAGE] = {"image", 2},     [PACKER_PACK] = {"pack", 2},
        [PACKER_DIFF] = {"diff", 3},     [PACKER_FLATTEN] = {"flatten", 2}, [PACKER_READ] = {"read", 3},
};
static_assert(ELEMENTSOF(verbs) == PACKER_VERBS, "every verb has a name");

int packer_prepare(const struct packer_job *job, struct packer_call *ret, struct err *err) {
        int ends[2];

        if ((unsigned)job->verb >= PACKER_VERBS)
                return err_set(err, ERR_INPUT, "there is no such work for %s", PACKER_PROGRAM);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        *ret = (struct packer_call){.ours = ends[0], .theirs = ends[1]};
        for (size_t i = 0; i < 3; i++)
                ret->fds[i] = i < verbs[job->verb].fds ? job->fds[i] : -EBADF;
        ret->fds[PACKER_RESULT_FD - 3] = ret->theirs;
        ret->fds[PACKER_NS_FD - 3] = job->user_ns;
        size_t n = 0;
        ret->argv[n++] = (char *)(uintptr_t)PACKER_PROGRAM;
        ret->argv[n++] = (char *)(uintptr_t) "--join";
        ret->argv[n++] = (char *)(uintptr_t)verbs[job->verb].name;
        (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%llu", (unsigned long long)job->max_bytes);
        (void)snprintf(ret->numbers[1], sizeof ret->numbers[1], "%llu", (unsigned long long)job->max_entries);
        ret->argv[n++] = ret->numbers[0];
        ret->argv[n++] = ret->numbers[1];
        return 0;
}

void packer_call_end(struct packer_call *c) {
        fd_close(&c->ours);
        fd_close(&c->theirs);
}

static bool number(const char **at, uint64_t *ret) {
        char *end;

        if (**at < '0' || **at > '9')
                return false;
        errno = 0;
        *ret = strtoull(*at, &end, 10);
        if (errno || (*end != ' ' && *end != '\0'))
                return false;
        *at = *end ? end + 1 : end;
        return true;
}

int packer_read(const char *line, size_t size, struct packer_result *ret, struct err *err) {
        struct packer_result r = {0};
        char text[PACKER_LINE_MAX + 1], safe[PACKER_LINE_MAX + 1];
        uint64_t code;

        if (size == 0 || size > PACKER_LINE_MAX || line[size - 1] != '\n' || memchr(line, '\0', size) ||
            memchr(line, '\n', size) != line + size - 1)
                return err_set(err, ERR_CORRUPT, "%s ended without a word", PACKER_PROGRAM);
        memcpy(text, line, size - 1);
        text[size - 1] = '\0';
        const char *at = text;
        if (str_starts(at, "error ") && (at += 6, number(&at, &code)) && code > 0 && code < 4096) {
                text_escape(safe, sizeof safe, at);
                /* the sentence has its reason in it already */
                (void)err_set(err, ERR_INPUT, "%.400s", safe);
                if (err)
                        err->code = -(int)code;
                return -(int)code;
        }
        if (!str_starts(at, "ok ") || (at += 3, !number(&at, &r.bytes)) || !number(&at, &r.entries) ||
            !number(&at, &r.skipped))
                return err_set(err, ERR_CORRUPT, "%s said something that makes no sense", PACKER_PROGRAM);
        text_escape(r.text, sizeof r.text, at);
        *ret = r;
        return 0;
}

int packer_result(int ours, struct packer_result *ret, struct err *err) {
        char line[PACKER_LINE_MAX + 1];
        ssize_t n = fd_read_full(ours, line, sizeof line);

        if (n < 0)
                return err_set(err, (int)n, "could not hear how %s ended", PACKER_PROGRAM);
        return packer_read(line, (size_t)n, ret, err);
}
