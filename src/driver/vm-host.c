/* See vm-host.h. */
#include "driver/vm-host.h"

#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/text.h"

static bool has_image(const char *folder) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/kernel", folder);

        return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

int vm_host_image(char ret[PATH_MAX], struct err *err) {
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof "microvm");

        if (n > 0) {
                ret[n] = '\0';
                memcpy(strrchr(ret, '/') + 1, "microvm", sizeof "microvm");
                if (has_image(ret))
                        return 0;
        }
        (void)snprintf(ret, PATH_MAX, "/var/lib/stockade/microvm");
        if (has_image(ret))
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "there is no kernel for microVMs in '%s'", ret);
        return err_hint(err, "as root: apt-get install linux-image-cloud-amd64 && stockade image microvm");
}

/* The last line of what the programs complained, after the sentence that there is. */
int vm_host_quote(int words, struct err *err) {
        char said[512], line[256];
        ssize_t n = read(words, said, sizeof said - 1);

        while (n > 0 && (unsigned char)said[n - 1] <= ' ')
                n--;
        if (n <= 0)
                return err->code;
        said[n] = '\0';
        const char *last = strrchr(said, '\n');
        text_escape(line, sizeof line, last ? last + 1 : said);
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof err->text - used, " (%s)", line);
        return err->code;
}

/* The host's shows other processes under our numbers. */
int vm_host_proc(struct err *err) {
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return err_set(err, -errno, "could not mount a /proc of the box's own");
        return 0;
}
