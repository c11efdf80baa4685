/* Replays a corpus: every file of the folders and files that are named, one after another. Fails when there is none. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "tests/fuzz/fuzz.h"

#ifndef STOCKADE_LIBFUZZER

static unsigned files;

static void replay(int dir, const char *name) {
        char *data;
        size_t size;

        if (fd_read_file(dir, name, 16 << 20, false, &data, &size, NULL) < 0)
                return;
        (void)LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        free(data);
        files++;
}

int main(int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                DIR *d = opendir(argv[i]);
                struct dirent *e;

                if (!d) {
                        replay(AT_FDCWD, argv[i]);
                        continue;
                }
                while ((e = readdir(d)))
                        if (e->d_name[0] != '.')
                                replay(dirfd(d), e->d_name);
                (void)closedir(d);
        }
        (void)printf("%u inputs replayed\n", files);
        return files == 0;
}

#endif
