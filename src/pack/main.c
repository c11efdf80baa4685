/* stockade-pack VERB BYTES ENTRIES: one job, on the descriptors that it was started with, and one line about it.
 *
 *   unpack, image   3 archive, 4 target tree       pack      3 tree, 4 out
 *   diff            3 old tree, 4 new tree, 5 out   flatten   3 tree, 4 target tree
 *   read            3 tree, 4 question, 5 out
 *
 * With --join (as root always): 7 is a user namespace to join, and the line goes to 6. BYTES and ENTRIES are the most
 * that may be unpacked; 0 is no limit. Exit status: 0 if the line begins with "ok". */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "disk/packer.h"
#include "pack/pack.h"

enum { FIRST = 3, SECOND, THIRD };

struct job {
        struct caps caps;
        struct tally tally;
};

static int do_unpack(struct job *j, struct err *err) {
        return unpack_tree(FIRST, SECOND, &j->caps, &j->tally, err);
}

static int do_image(struct job *j, struct err *err) {
        return layers_unpack(FIRST, SECOND, &j->caps, &j->tally, err);
}

static int do_pack(struct job *j, struct err *err) {
        return pack_tree(FIRST, SECOND, &j->tally, err);
}

static int do_diff(struct job *j, struct err *err) {
        return compare_trees(FIRST, SECOND, THIRD, &j->tally, err);
}

static int do_flatten(struct job *j, struct err *err) {
        return flatten_tree(FIRST, SECOND, &j->caps, &j->tally, err);
}

static int do_read(struct job *j, struct err *err) {
        return read_tree(FIRST, SECOND, THIRD, &j->tally, err);
}

static const struct {
        const char *name;
        int (*run)(struct job *j, struct err *err);
        int read[2], write; /* which of the descriptors are trees */
} verbs[] = {
        {"unpack", do_unpack, {-EBADF, -EBADF}, SECOND},  {"image", do_image, {-EBADF, -EBADF}, SECOND},
        {"pack", do_pack, {FIRST, -EBADF}, -EBADF},       {"diff", do_diff, {FIRST, SECOND}, -EBADF},
        {"flatten", do_flatten, {FIRST, -EBADF}, SECOND}, {"read", do_read, {FIRST, -EBADF}, -EBADF},
};

const char *pack_shown(const char *path, char buf[200]) {
        text_escape(buf, 200, path);
        return buf;
}

/* One line, whatever is in the texts. */
static void tell(int fd, int r, const struct tally *t, const struct err *err) {
        char line[PACKER_LINE_MAX], text[600];
        int n;

        text_escape(text, sizeof text, r < 0 ? err->text : t->text);
        if (r < 0)
                n = snprintf(line, sizeof line, "error %d %s\n", -r, text);
        else
                n = snprintf(line, sizeof line, "ok %llu %llu %llu %s\n", (unsigned long long)t->bytes,
                             (unsigned long long)t->entries, (unsigned long long)t->skipped, text);
        (void)fd_write_full(fd, line, (size_t)MIN(n, (int)sizeof line - 1));
}

static bool number(const char *text, uint64_t *ret) {
        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 10);
        if (errno || *end || text[0] < '0' || text[0] > '9')
                return false;
        *ret = *ret ? *ret : UINT64_MAX;
        return true;
}

int main(int argc, char **argv) {
        bool join = argc > 1 && str_eq(argv[1], "--join");
        int result = join ? PACKER_RESULT_FD : STDOUT_FILENO, r = ERR_INPUT;
        struct job j = {0};
        struct err err = {0};
        size_t verb = 0;

        argc -= 1 + join;
        argv += 1 + join;
        while (verb < ELEMENTSOF(verbs) && (argc != 3 || !str_eq(argv[0], verbs[verb].name)))
                verb++;
        if (verb == ELEMENTSOF(verbs) || !number(argv[1], &j.caps.bytes) || !number(argv[2], &j.caps.entries)) {
                (void)fprintf(stderr,
                              "usage: stockade-pack [--join] unpack|image|pack|diff|flatten|read BYTES ENTRIES\n");
                return 2;
        }
        /* names are bytes; where they are UTF-8, archives say so */
        (void)setlocale(LC_CTYPE, "C.UTF-8");
        if (geteuid() == 0 && !join)
                (void)err_set(&err, r, "as root it needs a user namespace to join");
        else
                r = confine(&(struct confine){.ns = join ? PACKER_NS_FD : -EBADF,
                                              .read = {verbs[verb].read[0], verbs[verb].read[1]},
                                              .write = verbs[verb].write},
                            &err);
        if (r == 0)
                r = verbs[verb].run(&j, &err);
        tell(result, r, &j.tally, &err);
        return r < 0;
}
