/* Unit tests of an image's papers, and of the one line that stockade-pack says. */
#include "base/json-read.h"
#include "base/test.h"
#include "disk/packer.h"
#include "pack/layers.h"

static struct layers l;

static int docker(const char *text) {
        return json_check(text, strlen(text), NULL) < 0 ? -1 : layers_from_docker(text, &l, NULL);
}

static int oci(const char *text) {
        return json_check(text, strlen(text), NULL) < 0 ? -1 : layers_from_oci(text, &l, NULL);
}

static void docker_manifests(void) {
        CHECK(docker("[{\"RepoTags\":[\"a:b\"],\"Layers\":[\"./1/layer.tar\",\"2//layer.tar\"]}]") == 0);
        CHECK(l.count == 2);
        CHECK_STR(l.name[0], "1/layer.tar");
        CHECK_STR(l.name[1], "2/layer.tar");
        CHECK_STR(l.tag, "a:b");
        CHECK(docker("[{\"RepoTags\":null,\"Layers\":[\"x\"]}]") == 0 && l.tag[0] == '\0');
        static const char *const bad[] = {"[]",
                                          "{}",
                                          "[{}]",
                                          "[{\"Layers\":[]}]",
                                          "[{\"Layers\":\"x\"}]",
                                          "[{\"Layers\":[1]}]",
                                          "[{\"Layers\":[\"../x\"]}]",
                                          "[{\"Layers\":[\"/x\"]}]",
                                          "[{\"Layers\":[\".\"]}]",
                                          "[{\"Layers\":[\"\"]}]",
                                          "[{\"Layers\":[\"x\"]},{\"Layers\":[\"x\"]}]"};
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(docker(bad[i]) == ERR_INPUT);
}

/* 62 digits that are before the last two. */
#define ZEROS "00000000000000000000000000000000000000000000000000000000000000"

static void oci_manifests(void) {
        char name[LAYERS_NAME_SIZE];
        bool index = false;

        CHECK(oci("{\"layers\":[{\"digest\":\"sha256:" ZEROS "ab\"},{\"digest\":\"sha256:" ZEROS "cd\"}]}") == 0 &&
              l.count == 2);
        CHECK_STR(l.name[0], "blobs/sha256/" ZEROS "ab");
        CHECK_STR(l.name[1], "blobs/sha256/" ZEROS "cd");
        CHECK(oci("{\"layers\":[{\"digest\":\"sha512:" ZEROS "ab\"}]}") == ERR_INPUT); /* could not be compared */
        CHECK(oci("{\"layers\":[{\"digest\":\"sha256:ab\"}]}") == ERR_INPUT);
        CHECK(oci("{\"layers\":[{\"digest\":\"sha256:../x\"}]}") == ERR_INPUT);
        CHECK(oci("{\"layers\":[{\"digest\":\"../x:aa\"}]}") == ERR_INPUT);
        CHECK(oci("{\"layers\":[{}]}") == ERR_INPUT && oci("{\"layers\":[]}") == ERR_INPUT && oci("[]") == ERR_INPUT);

        static const char several[] = "{\"manifests\":[{\"digest\":\"sha256:" ZEROS
                                      "01\",\"platform\":{\"os\":\"linux\",\"architecture\":\"mips\"}},"
                                      "{\"digest\":\"sha256:" ZEROS
                                      "02\",\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}},"
                                      "{\"digest\":\"sha256:" ZEROS
                                      "02\",\"platform\":{\"os\":\"linux\",\"architecture\":\"arm64\"}}]}";
        CHECK(json_check(several, strlen(several), NULL) == 0);
        CHECK(layers_next_paper(several, name, &index, NULL) == 0 && !index);
        CHECK_STR(name, "blobs/sha256/" ZEROS "02");
        static const char inner[] = "{\"manifests\":[{\"digest\":\"sha256:" ZEROS
                                    "03\",\"mediaType\":\"a.image.index.v1+json\"}]}";
        CHECK(layers_next_paper(inner, name, &index, NULL) == 0 && index);
        CHECK(layers_next_paper("{}", name, &index, NULL) == ERR_INPUT);
}

static int line(const char *text, struct packer_result *ret, struct err *err) {
        return packer_read(text, strlen(text), ret, err);
}

static void lines_are_read_with_suspicion(void) {
        struct packer_result r = {0};
        struct err err = {0};

        CHECK(line("ok 12 3 1 a tar archive\n", &r, NULL) == 0 && r.bytes == 12 && r.entries == 3 && r.skipped == 1);
        CHECK_STR(r.text, "a tar archive");
        CHECK(line("ok 0 0 0 \n", &r, NULL) == 0 && r.text[0] == '\0');
        CHECK(line("ok 0 0 0 \x1b[31m\n", &r, NULL) == 0 && !strchr(r.text, '\x1b'));
        CHECK(line("error 28 cannot write 'x': No space left on device\n", &r, &err) == -28 && err.code == -28);
        CHECK_STR(err.text, "cannot write 'x': No space left on device");
        CHECK(line("error 1003 it is broken\n", &r, &err) == ERR_INPUT);
        static const char *const bad[] = {"",
                                          "\n",
                                          "ok",
                                          "ok\n",
                                          "ok 1 2\n",
                                          "ok -1 2 3 x\n",
                                          "ok 1 2 3",
                                          "error\n",
                                          "error 0 x\n",
                                          "error -5 x\n",
                                          "error 99999 x\n",
                                          "ok 99999999999999999999999 1 1 x\n",
                                          "ok 1 2 3 a\nok 1 2 3 b\n",
                                          "OK 1 2 3 x\n",
                                          "ok 1x 2 3 x\n"};
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(line(bad[i], &r, &err) == ERR_CORRUPT);
        CHECK(packer_read("ok 1 2\0 3 x\n", 12, &r, NULL) == ERR_CORRUPT);
        static char longer[PACKER_LINE_MAX + 2];
        memset(longer, ' ', sizeof longer);
        memcpy(longer, "ok 1 2 3", 8);
        longer[sizeof longer - 1] = '\n';
        CHECK(packer_read(longer, sizeof longer, &r, NULL) == ERR_CORRUPT);
}

TEST_MAIN(TEST(docker_manifests), TEST(oci_manifests), TEST(lines_are_read_with_suspicion))
