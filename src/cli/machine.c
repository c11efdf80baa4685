/* What virtual machines boot, made by stockade-vm-image from a kernel that Debian installed. */
#include "cli/machine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/paths.h"
#include "cli/host_conf.h"

#define STATE  "/var/lib/stockade"
#define FOLDER STATE "/microvm" /* where the driver looks (driver/vm-host.c), unless stockade.conf says otherwise */
#define PREFIX "vmlinuz-"
#define SUFFIX "-cloud-amd64"

/* The newest, by the numbers in its name. */
static int find_release(char ret[static 256], struct err *err) {
        DIR *d = opendir("/boot");
        struct dirent *e;

        ret[0] = '\0';
        while (d && (e = readdir(d))) {
                size_t n = strlen(e->d_name);

                if (!str_starts(e->d_name, PREFIX) || n < strlen(SUFFIX) ||
                    !str_eq(e->d_name + n - strlen(SUFFIX), SUFFIX))
                        continue;
                const char *release = e->d_name + strlen(PREFIX);
                if (strlen(release) < 256 && (!ret[0] || strverscmp(release, ret) > 0))
                        (void)snprintf(ret, 256, "%s", release);
        }
        if (d)
                (void)closedir(d);
        if (ret[0])
                return 0;
        (void)err_set(err, -ENOENT, "there is no kernel for virtual machines in /boot");
        return err_hint(err, "as root: apt-get install linux-image-cloud-amd64");
}

static int make_folder(char ret[4096], struct err *err) {
        const char *chosen = host_conf()->microvm_image;
        const char *const steps[] = {STATE, ret};

        (void)snprintf(ret, 4096, "%s", chosen[0] ? chosen : FOLDER);
        for (size_t i = chosen[0] ? 1 : 0; i < ELEMENTSOF(steps); i++)
                if (mkdir(steps[i], 0755) < 0 && errno != EEXIST) {
                        (void)err_set(err, -errno, "cannot make the folder '%s'", steps[i]);
                        return err_hint(err, "run it as root");
                }
        return 0;
}

int machine_image(const char *release, char ret_folder[4096], struct err *err) {
        char program[PATH_MAX], init[PATH_MAX], kernel[PATH_MAX], modules[PATH_MAX], found[256];
        char *const argv[] = {program, kernel, modules, init, ret_folder, NULL};
        int status;

        int r = release ? 0 : find_release(found, err);
        if (r < 0)
                return r;
        if (release && (strchr(release, '/') || strlen(release) >= sizeof found))
                return err_set(err, ERR_INPUT, "'%.80s' is no release of a kernel, such as 6.1.0-18-cloud-amd64",
                               release);
        r = paths_helper("stockade-vm-image", program, sizeof program, err);
        if (r == 0)
                r = paths_helper("stockade-vm-init", init, sizeof init, err);
        if (r == 0)
                r = make_folder(ret_folder, err);
        if (r < 0)
                return r;
        (void)snprintf(kernel, sizeof kernel, "/boot/" PREFIX "%s", release ? release : found);
        (void)snprintf(modules, sizeof modules, "/lib/modules/%s", release ? release : found);
        pid_t pid = fork();
        if (pid == 0) {
                (void)execv(program, argv);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return err_set(err, -errno, "could not run '%s'", program);
        if (status != 0)
                return err_set(err, ERR_INPUT, "no image was made of '%s'", kernel); /* it has said why */
        return 0;
}
