/* Fuzz target: --allow. What is accepted adds exactly one entry, which a profile can say too; a sealed policy gets none
 * that it did not have; what is refused says why and changes nothing. */
#include "policy/profile.h"
#include "tests/fuzz/fuzz.h"

static void check_printed(const struct policy *p) {
        _cleanup_policy_ struct policy again = {0};
        _cleanup_buf_ struct buf yaml = {.max = 16 << 20};
        uint8_t a[HASH_SIZE], b[HASH_SIZE];
        struct err err = {0};

        assert(policy_print(p, &yaml) == 0);
        assert(profile_parse("printed", yaml.data, yaml.size, &again, &err) == 0);
        policy_hash(p, a);
        policy_hash(&again, b);
        assert(memcmp(a, b, sizeof a) == 0);
}

static void check(const char *text, const char *parent, bool sealed) {
        _cleanup_policy_ struct policy p = {0};
        uint8_t before[HASH_SIZE], after[HASH_SIZE];
        struct err err = {0};

        assert(profile_load(parent, &p, NULL, &err) == 0);
        p.sealed = sealed;
        size_t count = p.network.allow_count;
        policy_hash(&p, before);
        int r = policy_allow(&p, text, &err);
        if (r < 0) {
                policy_hash(&p, after);
                assert(err.text[0] != '\0' && memcmp(before, after, sizeof before) == 0);
                return;
        }
        assert(p.network.allow_count == count + 1);
        assert(!sealed || count > 0); /* nothing is narrower than no network */
        const struct policy_reach *added = &p.network.allow[count];
        assert((added->host && added->host[0]) != (added->cidr && added->cidr[0]));
        check_printed(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = strndup((const char *)data, size);

        assert(text);
        check(text, "builtin:low", false);
        check(text, "builtin:low", true);
        check(text, "builtin:high", true);
        return 0;
}
