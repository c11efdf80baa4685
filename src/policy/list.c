/* Every profile that can be named. Folders and files that cannot be read are left out: naming one says why. */
#include <dirent.h>
#include <limits.h>

#include "policy/search.h"
#include "policy/value.h"

void profile_list_free(struct profile_list *l) {
        for (size_t i = 0; i < l->count; i++) {
                free(l->items[i].name);
                free(l->items[i].source);
                free(l->items[i].summary);
        }
        free(l->items);
        *l = (struct profile_list){0};
}

/* The first comment line, without its '#' and spaces. */
static char *summary(const char *data, size_t size) {
        const char *end = memchr(data, '\n', size);
        const char *start = data;

        if (!end)
                end = data + size;
        if (start == end || *start != '#')
                return strdup("");
        while (start < end && (*start == '#' || *start == ' '))
                start++;
        return strndup(start, (size_t)(end - start));
}

static bool is_listed(const struct profile_list *l, const char *name) {
        for (size_t i = 0; i < l->count; i++)
                if (str_eq(l->items[i].name, name))
                        return true;
        return false;
}

static int add_entry(struct profile_list *l, const struct profile_search *search, const char *name) {
        _cleanup_sources_ struct profile_sources sources = {0};
        _cleanup_(search_file_free) struct search_file file = {0};

        if (is_listed(l, name) || search_read(search, name, NULL, &sources, &file, NULL) < 0)
                return 0;
        struct profile_entry *more = realloc(l->items, (l->count + 1) * sizeof *more);
        if (!more)
                return -ENOMEM;
        l->items = more;
        struct profile_entry *e = &more[l->count++];
        *e = (struct profile_entry){strdup(name), strdup(file.label), summary(file.data, file.size)};
        return e->name && e->source && e->summary ? 0 : -ENOMEM;
}

static void close_folder(DIR **d) {
        if (*d)
                (void)closedir(*d);
}

static int add_folder(struct profile_list *l, const struct profile_search *search, const char *folder) {
        _cleanup_(close_folder) DIR *dir = opendir(folder);
        struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
                size_t length = strlen(entry->d_name);
                char name[80];

                if (length <= 5 || length - 5 >= sizeof name || !str_eq(entry->d_name + length - 5, ".yaml"))
                        continue;
                memcpy(name, entry->d_name, length - 5);
                name[length - 5] = '\0';
                if (value_check_name(name, NULL) < 0)
                        continue;
                int r = add_entry(l, search, name);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int by_name(const void *a, const void *b) {
        return strcmp(((const struct profile_entry *)a)->name, ((const struct profile_entry *)b)->name);
}

int profile_list_from(const struct profile_search *search, struct profile_list *ret, struct err *err) {
        _cleanup_(profile_list_free) struct profile_list l = {0};
        char buf[PATH_MAX];
        const char *folder;
        int r = 0;

        for (size_t i = 0; r == 0 && i < profile_builtin_count; i++)
                r = add_entry(&l, search, profile_builtins[i].name);
        size_t builtins = l.count;
        for (size_t i = 0; r == 0 && (folder = search_folder(search, i, buf, sizeof buf)); i++)
                r = add_folder(&l, search, folder);
        if (r < 0)
                return err_set(err, r, "cannot list profiles");
        if (l.count > builtins)
                qsort(l.items + builtins, l.count - builtins, sizeof *l.items, by_name);
        *ret = l;
        l = (struct profile_list){0};
        return 0;
}

int profile_list(struct profile_list *ret, struct err *err) {
        struct search_store store;
        struct profile_search search = search_default(&store);

        return profile_list_from(&search, ret, err);
}
