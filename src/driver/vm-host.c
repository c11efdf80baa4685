/* See vm-host.h. */
#include "driver/vm-host.h"

#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/text.h"
#include "driver/keeper.h"

#define CHOSEN "image=" /* of the options */

static bool has_image(const char *folder) {
        static const char *const names[] = {"kernel", "initrd"};
        char path[PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);

                if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK) < 0)
                        return false;
        }
        return true;
}

static const char *chosen_image(void) {
        for (char *const *words = keeper_options(); words && *words; words++)
                if (str_starts(*words, CHOSEN) && (*words)[strlen(CHOSEN)])
                        return *words + strlen(CHOSEN);
        return NULL;
}

static int no_image(const char *folder, struct err *err) {
        (void)err_set(err, ERR_UNENFORCED, "there is no kernel for microVMs in '%s'", folder);
        return err_hint(err, "as root: apt-get install linux-image-cloud-amd64 && stockade image microvm");
}

int vm_host_image(char ret[PATH_MAX], struct err *err) {
        const char *chosen = chosen_image();

        if (chosen) {
                (void)snprintf(ret, PATH_MAX, "%s", chosen);
                return has_image(ret) ? 0 : no_image(ret, err);
        }
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof "microvm");

        if (n > 0) {
                ret[n] = '\0';
                memcpy(strrchr(ret, '/') + 1, "microvm", sizeof "microvm");
                if (has_image(ret))
                        return 0;
        }
        (void)snprintf(ret, PATH_MAX, "/var/lib/stockade/microvm");
        return has_image(ret) ? 0 : no_image(ret, err);
}

/* A line that says more than a warning; "" if there is none. */
static void first_words(char *said, char *ret, size_t size) {
        char *rest = said;

        ret[0] = '\0';
        for (const char *line; (line = strsep(&rest, "\n")) && !ret[0];)
                if (!strstr(line, "warning:"))
                        text_escape(ret, size, line);
}

int vm_host_quote(int words, struct err *err) {
        char said[1024], line[256];
        ssize_t n = read(words, said, sizeof said - 1);

        said[MAX(n, 0)] = '\0';
        first_words(said, line, sizeof line);
        size_t used = strlen(err->text);
        if (line[0])
                (void)snprintf(err->text + used, sizeof err->text - used, " (%s)", line);
        return err->code;
}

/* The host's shows other processes under our numbers. */
int vm_host_proc(struct err *err) {
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return err_set(err, -errno, "could not mount a /proc of the box's own");
        return 0;
}
