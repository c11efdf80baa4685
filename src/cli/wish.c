/* What is known about paths that a program wished for: which hold keys, which are too broad, which belong together.
 * Only names are looked at. The lists are a help for the reader, not a boundary: what is in no list is still the
 * reader's to judge. */
#include "base/text.h"
#include "cli/learn_wish.h"

#define MERGE_AT 5 /* so many of one folder become the folder */

/* A path, or anything below it. */
static const struct {
        const char *path, *what;
} places[] = {
        {"/etc/shadow", "passwords"},
        {"/etc/gshadow", "passwords"},
        {"/etc/sudoers", "who may become root"},
        {"/etc/sudoers.d", "who may become root"},
        {"/etc/ssh", "the host's own keys"},
        {"/etc/ssl/private", "private keys"},
        {"/etc/pki/tls/private", "private keys"},
        {"/etc/letsencrypt", "private keys"},
        {"/etc/wireguard", "private keys"},
        {"/etc/openvpn", "private keys"},
        {"/etc/krb5.keytab", "the host's own keys"},
        {"/etc/kubernetes", "keys of a cluster"},
        {"/etc/rancher", "keys of a cluster"},
        {"/etc/docker", "settings and keys of containers"},
        {"/etc/NetworkManager/system-connections", "passwords of networks"},
        {"/var/run/docker.sock", "control over the whole host"},
        {"/run/docker.sock", "control over the whole host"},
        {"/run/docker", "control over the whole host"},
        {"/run/containerd", "control over the whole host"},
        {"/var/run/containerd", "control over the whole host"},
        {"/run/crio", "control over the whole host"},
        {"/run/podman", "control over the whole host"},
        {"/run/systemd", "control over the host's services"},
        {"/run/dbus", "control over the host's services"},
        {"/var/run/dbus", "control over the host's services"},
        {"/run/user", "sockets and keys of people who are logged in"},
        {"/run/secrets", "secrets"},
        {"/var/run/secrets", "secrets"},
        {"/var/lib/docker", "everything that containers hold"},
        {"/var/lib/containerd", "everything that containers hold"},
        {"/var/lib/containers", "everything that containers hold"},
        {"/var/lib/kubelet", "keys of a cluster"},
        {"/var/lib/cloud", "what the machine was set up with, keys among it"},
        {"/var/log", "what happened on the host"},
        {"/var/spool/cron", "what the host executes"},
        {"/boot", "the kernel"},
        {"/root", "the home of root"},
};

/* In any folder: the name of a part of the path. */
static const struct {
        const char *name, *what;
} parts[] = {
        {".ssh", "keys"},
        {".gnupg", "keys"},
        {".aws", "cloud credentials"},
        {".azure", "cloud credentials"},
        {".config/gcloud", "cloud credentials"},
        {".oci", "cloud credentials"},
        {".kube", "keys of a cluster"},
        {".docker", "credentials of registries"},
        {".config/containers", "credentials of registries"},
        {".config/gh", "credentials"},
        {".config/op", "credentials"},
        {".config/stockade", "Stockade's own profiles"},
        {".netrc", "passwords"},
        {".git-credentials", "passwords"},
        {".npmrc", "credentials"},
        {".pypirc", "credentials"},
        {".pgpass", "passwords"},
        {".my.cnf", "passwords"},
        {".vault-token", "credentials"},
        {".terraform.d", "credentials"},
        {".cargo/credentials", "credentials"},
        {".cargo/credentials.toml", "credentials"},
        {".gem/credentials", "credentials"},
        {".m2/settings.xml", "passwords"},
        {".password-store", "passwords"},
        {".local/share/keyrings", "passwords"},
        {".mozilla", "a browser's passwords and sessions"},
        {".config/google-chrome", "a browser's passwords and sessions"},
        {".config/chromium", "a browser's passwords and sessions"},
        {".bitcoin", "a wallet"},
        {".ethereum", "a wallet"},
        {".electrum", "a wallet"},
        {".env", "secrets"},
};

/* Beginnings and ends of a file's name. */
static const struct {
        const char *begin, *end, *what;
} names[] = {
        {"id_rsa", "", "a private key"},
        {"id_dsa", "", "a private key"},
        {"id_ecdsa", "", "a private key"},
        {"id_ed25519", "", "a private key"},
        {"", ".pem", "perhaps a private key"},
        {"", ".key", "perhaps a private key"},
        {"", ".p12", "a private key"},
        {"", ".pfx", "a private key"},
        {"", ".jks", "private keys"},
        {"", ".kdbx", "passwords"},
        {"", ".keytab", "keys"},
        {".env.", "", "secrets"},
        {"", "_history", "what was typed"},
        {"credentials", "", "perhaps credentials"},
        {"docker.sock", "", "control over the whole host"},
};

bool wish_below(const char *path, const char *parent) {
        size_t n = strlen(parent);

        return str_eq(parent, "/") || (strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

static bool has_part(const char *path, const char *part) {
        size_t n = strlen(part);

        for (const char *p = path; (p = strstr(p, part)); p += n)
                if (p > path && p[-1] == '/' && (p[n] == '\0' || p[n] == '/'))
                        return true;
        return false;
}

const char *wish_sensitive(const char *path) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        size_t length = strlen(name);

        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                if (has_part(path, parts[i].name))
                        return parts[i].what;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                size_t end = strlen(names[i].end);

                if (str_starts(name, names[i].begin) && length >= end && str_eq(name + length - end, names[i].end))
                        return names[i].what;
        }
        if (str_starts(path, "/etc/shadow") || str_starts(path, "/etc/gshadow")) /* copies have other ends */
                return "passwords";
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (wish_below(path, places[i].path))
                        return places[i].what;
        return NULL;
}

/* A whole home, a folder at the top, or one that has something sensitive of our lists below it. */
bool wish_broad(const char *path, const char *home) {
        const char *second = path[0] == '/' ? strchr(path + 1, '/') : NULL;

        if (!second || str_eq(path, "/root") || str_eq(path, "/run/user"))
                return true;
        if (str_starts(path, "/home/") && !strchr(path + strlen("/home/"), '/'))
                return true;
        if (home && home[0] == '/' && wish_below(home, path))
                return true;
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (wish_below(places[i].path, path))
                        return true;
        return false;
}

bool wish_plain(const char *path) {
        char shown[2 * LEARN_PATH_SIZE];

        text_escape(shown, sizeof shown, path);
        return text_check_path(path, NULL) == 0 && str_eq(shown, path);
}

struct wish *wish_add(struct wishes *w, enum wish_key key) {
        if (w->count >= w->room) /* pointers into the list are in use: it is made large enough beforehand */
                return NULL;
        struct wish *new = &w->items[w->count++];
        *new = (struct wish){.key = key, .path = "", .real = ""};
        return new;
}

void wish_free(struct wishes *w) {
        for (size_t i = 0; i < w->count; i++)
                free(w->items[i].folder);
        free(w->items);
        *w = (struct wishes){0};
}

static size_t folder_length(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash > path ? (size_t)(slash - path) : 0;
}

static bool same_folder(const struct wish *a, const struct wish *b) {
        size_t n = folder_length(a->path);

        return n > 0 && n == folder_length(b->path) && strncmp(a->path, b->path, n) == 0;
}

static bool open_wish(const struct wish *w) {
        return w->key == WISH_READ && !w->why && !w->dropped;
}

/* Whether a folder may stand for what is in it. */
static bool may_merge(const struct wishes *w, const char *folder, const char *home) {
        if (wish_broad(folder, home) || wish_sensitive(folder))
                return false;
        for (size_t i = 0; i < w->count; i++)
                if (w->items[i].key != WISH_ALLOW && w->items[i].why && wish_below(w->items[i].path, folder))
                        return false;
        return true;
}

static int merge_one(struct wishes *w, struct wish *first, const char *home) {
        uint64_t count = 0;
        size_t members = 0, single = 0;
        unsigned flags = 0;

        for (size_t i = 0; i < w->count; i++)
                if (open_wish(&w->items[i]) && same_folder(&w->items[i], first)) {
                        members++;
                        single += MAX(w->items[i].merged, (size_t)1);
                        count += w->items[i].count;
                        flags |= w->items[i].flags & LEARN_USED;
                }
        if (members < MERGE_AT)
                return 0;
        _cleanup_free_ char *folder = strndup(first->path, folder_length(first->path));
        if (!folder)
                return -ENOMEM;
        if (!may_merge(w, folder, home))
                return 0;
        struct wish *whole = NULL;
        for (size_t i = 0; i < w->count && !whole; i++)
                if (open_wish(&w->items[i]) && str_eq(w->items[i].path, folder))
                        whole = &w->items[i];
        if (!whole)
                whole = wish_add(w, WISH_READ);
        if (!whole)
                return -ENOMEM;
        free(whole->folder);
        *whole = (struct wish){.key = WISH_READ,
                               .kind = LEARN_READ,
                               .flags = flags | LEARN_FOLDER,
                               .count = count,
                               .path = folder,
                               .real = "",
                               .merged = single,
                               .folder = folder};
        folder = NULL; /* the wish's now */
        for (size_t i = 0; i < w->count; i++)
                if (open_wish(&w->items[i]) && &w->items[i] != whole && wish_below(w->items[i].path, whole->path)) {
                        w->items[i].dropped = true;
                        w->items[i].into = whole;
                }
        return 1;
}

int wish_merge(struct wishes *w, const char *home) {
        for (bool again = true; again;) {
                again = false;
                for (size_t i = 0; i < w->count; i++) {
                        if (!open_wish(&w->items[i]))
                                continue;
                        int r = merge_one(w, &w->items[i], home);
                        if (r < 0)
                                return r;
                        again = again || r > 0;
                }
        }
        return 0;
}
