/* Keeps what a report rests on: the records of two runs, the report itself, and the page if one was asked for. The
 * latest report that is about Stockade and not about single checks is also beside the folders of all, as latest.json
 * and latest.html: the daemon shows it to those who run it (warden/paper.c).
 *
 * The folders are opened before the judge makes its world and used by descriptor from then on, so that what is mounted
 * over them meanwhile does not matter. Folders of earlier reports beyond the newest few are removed by descriptor; no
 * link is followed, and nothing is removed whose name is not of our making. Not being able to keep something is never
 * a reason not to judge. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"
#include "verify/report-words.h"

enum {
        KEEP_FOLDERS = 20,    /* reports that are kept, the new one included */
        KEEP_LOOK_MAX = 4096, /* names that are looked at in the folder of reports */
        KEEP_NAME = 25,       /* "20260131-235959-0123abcd" and a NUL */
};

/* One judge, one process. */
static int all_kept = -EBADF;    /* the folder of reports */
static int kept = -EBADF;        /* the folder of this report */
static int page_folder = -EBADF; /* the folder that the page goes to */
static const char *page_name;

static bool digits(const char *s, size_t n, const char *of) {
        return strspn(s, of) >= n;
}

/* YYYYMMDD-HHMMSS-NONCE and nothing else. */
static bool our_name(const char *s) {
        return strlen(s) == KEEP_NAME - 1 && digits(s, 8, "0123456789") && s[8] == '-' &&
               digits(s + 9, 6, "0123456789") && s[15] == '-' && digits(s + 16, 8, "0123456789abcdef");
}

static int by_name(const void *a, const void *b) {
        return strcmp(a, b);
}

static void closedir_cleanup(DIR **d) {
        if (*d)
                (void)closedir(*d);
}
#define _cleanup_dir_ _cleanup_(closedir_cleanup)

/* A stream of names in the folder; the descriptor stays the caller's. */
static DIR *names_of(int folder) {
        _cleanup_fd_ int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *names = copy >= 0 ? fdopendir(copy) : NULL;

        if (names)
                (void)TAKE_FD(copy);
        return names;
}

/* A folder of ours has files only; one that has more than that is left alone. */
static void remove_folder(int parent, const char *name) {
        _cleanup_fd_ int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_dir_ DIR *names = folder >= 0 ? names_of(folder) : NULL;

        if (!names)
                return;
        for (struct dirent *e; (e = readdir(names));)
                if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
                        (void)unlinkat(folder, e->d_name, 0);
        (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* Those of the same second have no order: the new one is left out of it. */
static void remove_old(int parent, const char *new_one) {
        _cleanup_dir_ DIR *names = names_of(parent);
        _cleanup_free_ char(*found)[KEEP_NAME] = calloc(KEEP_LOOK_MAX, sizeof *found);
        size_t count = 0;

        if (!names || !found)
                return;
        for (struct dirent *e; count < KEEP_LOOK_MAX && (e = readdir(names));)
                if (our_name(e->d_name) && !str_eq(e->d_name, new_one))
                        memcpy(found[count++], e->d_name, KEEP_NAME);
        qsort(found, count, sizeof *found, by_name);
        for (size_t i = 0; i + KEEP_FOLDERS - 1 < count; i++)
                remove_folder(parent, found[i]);
}

static int new_name(char ret[KEEP_NAME]) {
        uint32_t nonce;
        time_t now = time(NULL);
        struct tm t;
        char day[16];

        if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
                return -errno;
        if (!gmtime_r(&now, &t) || strftime(day, sizeof day, "%Y%m%d-%H%M%S", &t) != 15)
                return -EOVERFLOW;
        (void)snprintf(ret, KEEP_NAME, "%s-%08x", day, nonce);
        return 0;
}

int keep_open(struct judge *j, struct err *err) {
        char parent_name[PATH_MAX], name[KEEP_NAME];

        j->folder[0] = '\0';
        fd_close(&kept);
        fd_close(&all_kept);
        _cleanup_fd_ int parent = paths_state_dir("verify", false, err);
        if (parent < 0)
                return err_prefix(err, parent, "the records of this report are not kept");
        int r = paths_state_name("verify", false, parent_name, sizeof parent_name);
        if (r == 0)
                r = new_name(name);
        if (r < 0)
                return err_set(err, r, "the records of this report are not kept");
        if (mkdirat(parent, name, 0700) < 0)
                return err_set(err, -errno, "cannot make '%s/%s', so the records of this report are not kept",
                               parent_name, name);
        kept = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (kept < 0)
                return err_set(err, -errno, "cannot open '%s/%s'", parent_name, name);
        int n = snprintf(j->folder, sizeof j->folder, "%s/%s", parent_name, name);
        if (n < 0 || (size_t)n >= sizeof j->folder) {
                j->folder[0] = '\0';
                fd_close(&kept);
                (void)unlinkat(parent, name, AT_REMOVEDIR);
                return err_set(err, -ENAMETOOLONG, "the records of this report are not kept");
        }
        remove_old(parent, name);
        all_kept = TAKE_FD(parent);
        return 0;
}

int keep_record(struct judge *j, struct judge_record *r, const char *name, const char *text, struct err *err) {
        char file[64];
        char *copy = strdup(text);

        if (!copy)
                return err_set(err, -ENOMEM, "cannot keep the record '%s'", name);
        free(r->text);
        *r = (struct judge_record){.text = copy};
        if (kept < 0)
                return 0;
        (void)snprintf(file, sizeof file, "%s.json", name);
        int e = fd_replace_file(kept, file, 0600, text, strlen(text));
        if (e < 0)
                return err_set(err, e, "cannot write '%s/%s'", j->folder, file);
        int n = snprintf(r->path, sizeof r->path, "%s/%s", j->folder, file);
        if (n < 0 || (size_t)n >= sizeof r->path)
                r->path[0] = '\0';
        return 0;
}

/* Tries it, because permissions alone do not tell: the file system may be read-only or full. */
static int try_folder(int folder) {
        char name[64];

        (void)snprintf(name, sizeof name, ".stockade-verify.%ld", (long)getpid());
        _cleanup_fd_ int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        return unlinkat(folder, name, 0) < 0 ? -errno : 0;
}

int keep_check_report(const char *path, struct err *err) {
        char folder[PATH_MAX];
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        struct stat st;

        int n = !slash          ? snprintf(folder, sizeof folder, ".")
                : slash == path ? snprintf(folder, sizeof folder, "/")
                                : snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (n < 0 || (size_t)n >= sizeof folder || strlen(name) > 200)
                return err_set(err, -ENAMETOOLONG, "cannot write the report to '%.200s'", path);
        if (name[0] == '\0' || str_eq(name, ".") || str_eq(name, ".."))
                return err_set(err, ERR_INPUT, "'%.200s' is not the name of a file to write the report to", path);
        _cleanup_fd_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
                (void)err_set(err, -errno, "cannot open the folder '%.200s' for the report", folder);
                return err_hint(err, "make it first, or name another file with --report");
        }
        /* what is there is replaced, and a device must not be */
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
                return err_set(err, ERR_INPUT,
                               "'%.200s' is there and is not a regular file: the report does not replace it", path);
        int r = try_folder(fd);
        if (r < 0) {
                (void)err_set(err, r, "cannot write the report to the folder '%.200s'", folder);
                return err_hint(err, "name a file with --report in a folder that you can write to");
        }
        fd_close(&page_folder);
        page_folder = TAKE_FD(fd);
        page_name = name;
        return 0;
}

static int keep_page(const struct judge *j, struct err *err) {
        _cleanup_buf_ struct buf page = {.max = REPORT_MAX};

        if (page_folder < 0) {
                int r = keep_check_report(j->options.report, err);
                if (r < 0)
                        return r;
        }
        report_html(j, &page);
        if (!buf_ok(&page))
                return err_set(err, -ENOMEM, "cannot make the page '%s'", j->options.report);
        int r = fd_replace_file(page_folder, page_name, 0644, page.data, page.size);
        return r < 0 ? err_set(err, r, "cannot write the report to '%s'", j->options.report) : 0;
}

/* Each is whole, whoever reads it when. They are of native sandboxes: other drivers have their folders. */
static int keep_latest(const struct judge *j, const struct buf *text, struct err *err) {
        _cleanup_buf_ struct buf page = {.max = REPORT_MAX};

        if (j->options.only || j->options.against || launch_in_box(j))
                return 0;
        report_html(j, &page);
        int r = buf_ok(&page) ? fd_replace_file(all_kept, "latest.html", 0600, page.data, page.size) : -ENOMEM;
        if (r == 0)
                r = fd_replace_file(all_kept, "latest.json", 0600, text->data, text->size);
        return r < 0 ? err_set(err, r, "cannot keep this report as the latest beside '%s'", j->folder) : 0;
}

int keep_report(const struct judge *j, struct err *err) {
        int r = j->options.report ? keep_page(j, err) : 0;

        if (kept < 0)
                return r;
        struct err why = {0};
        _cleanup_buf_ struct buf text = {.max = REPORT_MAX};
        report_json(j, &text);
        buf_str(&text, "\n");
        int e = buf_ok(&text) ? fd_replace_file(kept, "report.json", 0600, text.data, text.size) : -ENOMEM;
        if (e < 0)
                (void)err_set(&why, e, "cannot write '%s/report.json'", j->folder);
        else
                e = keep_latest(j, &text, &why);
        if (r == 0 && e < 0) {
                *err = why;
                return e;
        }
        return r;
}
