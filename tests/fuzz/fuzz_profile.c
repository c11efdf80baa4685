/* Fuzz target: any bytes as a profile.
 *
 * Must hold for every input: no crash, no leak; a profile that is refused says why in one line and changes nothing; one
 * that is accepted can be checked, explained, copied and printed, and what is printed gives the same policy again.
 * Opens no file. */
#include "policy/profile.h"
#include "tests/fuzz/fuzz.h"

static void require(bool condition) {
        if (!condition)
                abort();
}

static void same_again(const struct policy *p, const struct buf *text) {
        _cleanup_policy_ struct policy again = {0};
        struct err err = {0};
        uint8_t a[HASH_SIZE], b[HASH_SIZE];

        require(profile_parse("printed", text->data, text->size, &again, &err) == 0);
        policy_hash(p, a);
        policy_hash(&again, b);
        require(memcmp(a, b, sizeof a) == 0);
}

static void accepted(struct policy *p) {
        _cleanup_buf_ struct buf yaml = {.max = 16 << 20}, sentences = {.max = 16 << 20}, text = {.max = 16 << 20};
        _cleanup_policy_ struct policy copy = {0};
        struct json json = {.out = &text};
        struct err err = {0};

        (void)policy_check(p, &err);
        require(policy_explain(p, &sentences) == 0);
        require(policy_copy(p, &copy) == 0);
        /* printing can make a text longer than a profile may be: quotes and backslashes are escaped */
        require(policy_print(&copy, &yaml) == 0);
        if (yaml.size <= PROFILE_FILE_MAX)
                same_again(p, &yaml);
        require(policy_print_json(&copy, &json, NULL) == 0);
        if (text.size <= PROFILE_FILE_MAX)
                same_again(p, &text);
}

/* The same bytes as an option: up to the first '=' a key, then its value. */
static void as_option(const uint8_t *data, size_t size) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_free_ char *key = strndup((const char *)data, MIN(size, 4096));
        struct err err = {0};

        require(key && profile_load("builtin:medium", &p, NULL, &err) == 0);
        char *value = strchr(key, '=');
        if (!value)
                return;
        *value++ = '\0';
        p.sealed = size % 2 == 0;
        if (policy_set(&p, key, value, &err) == 0)
                accepted(&p);
        else
                require(err.text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        int r = profile_parse("input", (const char *)data, size, &p, &err);
        if (r == 0)
                accepted(&p);
        else
                require(r < 0 && err.text[0] != '\0' && !strchr(err.text, '\n') && !p.name);
        as_option(data, size);
        return 0;
}
