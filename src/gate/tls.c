/* The door to the TLS module: finds it, opens it, and calls through its table.
 *
 * The module is looked for in one place only, the folder that this program was started from, by absolute path: no
 * search path and no variable can lead to another one. Without the module nothing here does anything but say no. */
#include "gate/tls.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include "gate/tls-door.h"

static const struct tls_door *door;

/* The module's path: beside the program. */
static int module_path(char ret[static PATH_MAX], struct err *err) {
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);

        if (n < 0)
                return err_set(err, -errno, "cannot find the gate's own program");
        ret[n] = '\0';
        char *slash = strrchr(ret, '/');
        if (!slash || (size_t)(slash + 1 - ret) + sizeof TLS_MODULE_FILE > PATH_MAX)
                return err_set(err, -ENAMETOOLONG, "cannot find the gate's own program");
        memcpy(slash + 1, TLS_MODULE_FILE, sizeof TLS_MODULE_FILE);
        return 0;
}

int tls_load(struct err *err) {
        char path[PATH_MAX];

        if (door)
                return 0;
        int r = module_path(path, err);
        if (r < 0)
                return r;
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!module) {
                (void)err_set(err, -ELIBACC, "cannot load the TLS module: %s", dlerror());
                (void)err_hint(err, "install %s beside the gate, and OpenSSL 3 (libssl3)", TLS_MODULE_FILE);
                return -ELIBACC;
        }
        const struct tls_door *found = dlsym(module, TLS_MODULE_SYMBOL);
        if (!found || found->size != sizeof *found || !str_eq(found->version, STOCKADE_VERSION)) {
                (void)dlclose(module);
                (void)err_set(err, ERR_REFUSED, "the TLS module '%s' is not of this version", path);
                (void)err_hint(err, "install the gate and its module from the same build");
                return ERR_REFUSED;
        }
        r = found->load(err);
        if (r < 0) /* the module stays mapped: OpenSSL cannot be unloaded */
                return r;
        door = found;
        return 0;
}

bool tls_loaded(void) {
        return door != NULL;
}

struct tls_authority *tls_authority_create(int key, struct err *err) {
        if (!door) {
                (void)err_set(err, ERR_REFUSED, "TLS cannot be opened: the module is not loaded");
                return NULL;
        }
        return door->authority_create(key, err);
}

int tls_authority_files(struct tls_authority *a, int ret[GATE_CA_COUNT], struct err *err) {
        return door->authority_files(a, ret, err);
}

void tls_authority_destroy(struct tls_authority *a) {
        if (a)
                door->authority_destroy(a);
}

struct tls *tls_accept(struct tls_authority *a, int fd, const char *name) {
        return door ? door->accept(a, fd, name) : NULL;
}

struct tls *tls_connect(int fd, const char *name, const struct address *literal) {
        return door ? door->connect(fd, name, literal) : NULL;
}

void tls_free(struct tls *t) {
        if (t)
                door->free(t);
}

int tls_handshake(struct tls *t) {
        return door->handshake(t);
}

ssize_t tls_read(struct tls *t, void *data, size_t size) {
        return door->read(t, data, size);
}

ssize_t tls_write(struct tls *t, const void *data, size_t size) {
        return door->write(t, data, size);
}

int tls_end(struct tls *t) {
        return door->end(t);
}

uint32_t tls_wants(const struct tls *t) {
        return door->wants(t);
}

bool tls_pending(const struct tls *t) {
        return door->pending(t);
}

const char *tls_problem(const struct tls *t) {
        return door->problem(t);
}
