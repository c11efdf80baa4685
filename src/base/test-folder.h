/* A folder for one test: made, and removed with the files in it. */
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

struct test_folder {
        char path[64];
        int fd;
};

static _unused_ void test_folder_make(struct test_folder *f) {
        (void)snprintf(f->path, sizeof f->path, "/tmp/stockade-test.XXXXXX");
        assert(mkdtemp(f->path));
        f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert(f->fd >= 0);
}

/* Every file of the folder goes; it has no folders. */
static _unused_ void test_folder_empty(struct test_folder *f) {
        DIR *d = fdopendir(openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct dirent *e;

        assert(d);
        while ((e = readdir(d)))
                (void)unlinkat(f->fd, e->d_name, 0);
        (void)closedir(d);
}

static _unused_ void test_folder_remove(struct test_folder *f) {
        test_folder_empty(f);
        fd_close(&f->fd);
        (void)rmdir(f->path);
}

/* Copies every file into an empty folder. */
static _unused_ void test_folder_copy(const struct test_folder *from, struct test_folder *to) {
        DIR *d = fdopendir(openat(from->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct dirent *e;

        assert(d);
        while ((e = readdir(d))) {
                char *data;
                size_t size;

                if (fd_read_file(from->fd, e->d_name, 1 << 30, true, &data, &size, NULL) < 0)
                        continue; /* . and .. */
                assert(fd_replace_file(to->fd, e->d_name, 0600, data, size) == 0);
                free(data);
        }
        (void)closedir(d);
}
