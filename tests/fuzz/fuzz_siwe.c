/* Fuzz target: sign-in texts, and the texts within them. What parses builds the same bytes again and passes its own
 * check; addresses, times, and URIs have one form. */
#include "auth/siwe.h"
#include "auth/uri.h"
#include "tests/fuzz/fuzz.h"

static void assert_time(const struct siwe_time *t) {
        char text[RFC3339_TEXT];
        uint64_t again;

        assert(rfc3339_format(t->ms, text) && rfc3339_parse(text, strlen(text), &again) && again == t->ms);
}

/* The text as something else than a message. */
static void look(const char *text, size_t size) {
        uint8_t signature[ETHEREUM_SIGNATURE];
        struct ethereum_address address;
        char shown[ETHEREUM_TEXT];
        uint64_t ms;

        if (ethereum_parse(text, size, false, &address, NULL) == 0) {
                ethereum_text(&address, shown);
                assert(size == strlen(shown) && memcmp(shown, text, size) == 0);
        }
        if (ethereum_parse_signature(text, size, signature, NULL) == 0)
                (void)ethereum_recover(text, size, signature, &address, NULL);
        if (rfc3339_parse(text, size, &ms))
                assert_time(&(struct siwe_time){.ms = ms});
        if (uri_check(text, size))
                assert(size > 1 && !memchr(text, ' ', size) && !memchr(text, '\n', size) && !memchr(text, '\0', size));
        if (uri_check_authority(text, size))
                assert(size > 0 && !memchr(text, '/', size) && !memchr(text, ' ', size) && !memchr(text, '\0', size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = malloc(size + !size), *domain = NULL, *uri = NULL, *nonce = NULL;
        _cleanup_buf_ struct buf b = {0};
        struct err err = {0};
        struct siwe m;

        if (!text)
                return 0;
        memcpy(text, data, size); /* no byte behind it may be read */
        look(text, size);
        int r = siwe_parse(text, size, &m, &err);
        assert(r == 0 || ((r == ERR_INPUT || r == ERR_LIMIT) && err.text[0]));
        if (r < 0)
                return 0;

        assert(size <= SIWE_MAX && m.resource_count <= SIWE_RESOURCES && !memchr(text, '\0', size) &&
               !memchr(text, '\r', size));
        assert(siwe_build(&m, &b, NULL) == 0 && b.size == size && memcmp(b.data, text, size) == 0);
        assert_time(&m.issued_at);
        assert(!m.has_expiration || m.expiration.text.at);
        domain = strndup(m.domain.at, m.domain.size);
        uri = strndup(m.uri.at, m.uri.size);
        nonce = strndup(m.nonce.at, m.nonce.size);
        if (!domain || !uri || !nonce)
                return 0;
        struct siwe_expect e = {
                .domain = domain, .uri = uri, .chain_id = m.chain_id, .nonce = nonce, .now_ms = m.issued_at.ms};
        r = siwe_check(&m, &e, NULL);
        assert(r == 0 || (r == ERR_REFUSED && (m.has_expiration || m.has_not_before)));
        e.chain_id++;
        assert(siwe_check(&m, &e, NULL) == ERR_REFUSED);
        return 0;
}
