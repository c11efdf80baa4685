/* `stockade image`: trees that sandboxes can be made of instead of the host's /usr.
 *
 * An archive goes to the daemon as it is. A folder is packed here, by the user who asks, so that nothing gets into an
 * image that this user could not read. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "cli/client.h"
#include "cli/machine.h"
#include "cli/pack.h"
#include "cli/pour.h"
#include "cli/table.h"

struct options {
        struct args_common common;
};

const struct args_verb image_verb = {
        .name = "image",
        .words = "import NAME PATH | list | remove NAME | microvm [RELEASE]",
        .summary = "import, list and remove images",
        .about = "import takes a folder, a tar of a root file system, or an archive of 'docker save' or of OCI layout "
                 "(compressed or not; - is standard input), and prints the image's id. What it unpacks to is checked: "
                 "nothing outside the image, no devices, caps on size and number. A folder is read with your "
                 "permissions; owners are kept. microvm makes what the driver microvm boots (needs root, and no "
                 "daemon): "
                 "from the newest cloud kernel in /boot, or from that of RELEASE.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 3,
        .what = {WHAT_CHOICE, WHAT_FILE},
        .choices = "import list remove microvm",
};

static int give(void *data, const void *bytes, size_t size, struct err *err) {
        return pour_give(data, bytes, size, err);
}

static int send_folder(struct talk *t, const char *path, bool json, const char **ret, struct err *err) {
        _cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct pack_count count;
        struct pour p;

        if (dir < 0)
                return err_set(err, -errno, "cannot open '%s'", path);
        pour_begin(&p, t, json);
        int r = pack_folder(dir, ".", PACK_IDS, give, &p, &count, err);
        if (r < 0 && r != -ECANCELED) {
                tell_progress_end(&p.progress);
                return r;
        }
        r = pour_end(&p, ret, err);
        if (count.special > 0 && !json)
                (void)fprintf(stderr, "stockade: left out %llu devices, sockets or pipes, such as '%s'\n",
                              (unsigned long long)count.special, count.example);
        return r;
}

static int import(const struct options *o, const char *name, const char *path) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        _cleanup_fd_ int in = -EBADF;
        struct err err = {0};
        struct stat st;
        const char *result;

        bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
        int r = folder ? 0 : pour_open(path, &in, &err);
        talk_begin(&q, "image-import");
        talk_str(&q, "name", name);
        if (r == 0)
                r = talk_go(&t, &o->common, &q, &err);
        if (r == 0)
                r = folder ? send_folder(&t, path, o->common.json, &result, &err)
                           : pour_in(&t, in, o->common.json, &result, &err);
        return r < 0 ? talk_failed(&t, &o->common, &err) : client_id(&o->common, result);
}

static int list(const struct options *o) {
        static const struct table_column columns[] = {{"ID", 0},
                                                      {"NAME", TABLE_SHRINK},
                                                      {"SIZE", TABLE_RIGHT},
                                                      {"FILES", TABLE_RIGHT},
                                                      {"AGE", TABLE_RIGHT},
                                                      {"ABOUT", TABLE_SHRINK}};
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct json_walk w;
        struct table table;
        const char *result;
        char text[32];
        int status;

        talk_begin(&q, "images");
        if (!client_ask(&t, &o->common, &q, &result, &status))
                return status;
        table_begin(&table, columns, ELEMENTSOF(columns));
        if (json_walk_begin(&w, result, "images"))
                while (json_walk_next(&w)) {
                        table_json(&table, w.value, "id");
                        table_json(&table, w.value, "name");
                        table_cell(&table, tell_size(text, sizeof text, tell_number(w.value, "bytes")));
                        table_json(&table, w.value, "entries");
                        table_cell(&table, tell_ago(text, sizeof text, tell_number(w.value, "created_ms")));
                        table_json(&table, w.value, "about");
                }
        table_print(&table);
        return 0;
}

static int forget(const struct options *o, const char *name) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        const char *result;
        int status;

        talk_begin(&q, "image-remove");
        talk_str(&q, "name", name);
        return client_ask(&t, &o->common, &q, &result, &status) ? 0 : status;
}

static int make_machine(const struct options *o, const char *release) {
        char folder[4096];
        struct err err = {0};

        if (machine_image(release, folder, &err) < 0)
                return talk_failed(NULL, &o->common, &err);
        if (!o->common.json)
                (void)printf("%s\n", folder);
        return 0;
}

int cmd_image(int argc, char **argv) {
        struct options o = {0};
        struct err err = {0};
        int status;

        if (!client_begin(&image_verb, &argc, argv, &o, &status))
                return status;
        if (argc == 3 && str_eq(argv[1], "import"))
                return import(&o, argv[2], argv[3]);
        if (argc == 1 && str_eq(argv[1], "list"))
                return list(&o);
        if (argc == 2 && str_eq(argv[1], "remove"))
                return forget(&o, argv[2]);
        if (argc <= 2 && str_eq(argv[1], "microvm"))
                return make_machine(&o, argc == 2 ? argv[2] : NULL);
        bool known = str_eq(argv[1], "import") || str_eq(argv[1], "list") || str_eq(argv[1], "remove") ||
                     str_eq(argv[1], "microvm");
        if (known)
                (void)err_set(&err, ERR_INPUT, "'stockade image %s' got too many or too few words", argv[1]);
        else
                (void)err_set(&err, ERR_INPUT, "'stockade image' cannot '%.40s'", argv[1]);
        (void)err_hint(&err, "stockade image %s", image_verb.words);
        return talk_failed(NULL, &o.common, &err);
}
