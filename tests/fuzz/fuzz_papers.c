/* Fuzz target: an image's papers, and stockade-pack's line. Names of layers that come out are plain paths, and texts
 * are printable. The first byte chooses. */
#include "base/json-read.h"
#include "base/pax.h"
#include "disk/packer.h"
#include "pack/layers.h"
#include "tests/fuzz/fuzz.h"

static void check_name(const char *name) {
        char plain[PAX_NAME_SIZE];

        assert(name[0] && name[0] != '/' && strlen(name) < LAYERS_NAME_SIZE);
        assert(pax_plain(name, plain) == 0 && str_eq(plain, name));
}

static void check_line(const char *text, size_t size) {
        struct packer_result r;
        struct err err = {0};

        int e = packer_read(text, size, &r, &err);
        const char *said = e == 0 ? r.text : err.text;
        assert(e <= 0 && e > -5000 && (e == 0 || err.code == e));
        for (const char *p = said; *p; p++)
                assert((unsigned char)*p >= ' ');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct layers l;
        char name[LAYERS_NAME_SIZE];
        bool index = false;

        if (size == 0)
                return 0;
        if (data[0] == 'l') {
                check_line((const char *)data + 1, size - 1);
                return 0;
        }
        _cleanup_free_ char *text = malloc(size);
        if (!text)
                return 0;
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        if (json_check(text, size - 1, NULL) < 0)
                return 0;
        int r = data[0] == 'd'   ? layers_from_docker(text, &l, NULL)
                : data[0] == 'o' ? layers_from_oci(text, &l, NULL)
                                 : layers_next_paper(text, name, &index, NULL);
        if (r < 0)
                return 0;
        if (data[0] != 'd' && data[0] != 'o') {
                check_name(name);
                return 0;
        }
        assert(l.count > 0 && l.count <= LAYERS_MAX);
        for (size_t i = 0; i < l.count; i++)
                check_name(l.name[i]);
        return 0;
}
