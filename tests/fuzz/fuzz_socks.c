/* Fuzz target: SOCKS5. A message is done with exactly its own bytes: with fewer there is more to come. */
#include "gate/socks.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct socks_request r, again;
        char name[HOSTNAME_SIZE];
        size_t n = 0, ignored;
        bool no_auth;

        if (socks_greeting(data, size, &n, &no_auth) == SOCKS_DONE) {
                assert(n >= 3 && n <= size && n <= SOCKS_MAX);
                for (size_t i = 0; i < n; i++)
                        assert(socks_greeting(data, i, &ignored, &no_auth) == SOCKS_MORE);
        }
        if (socks_request(data, size, &n, &r) != SOCKS_DONE)
                return 0;
        assert(n >= 7 && n <= size && n <= SOCKS_MAX);
        for (size_t i = 0; i < n; i++)
                assert(socks_request(data, i, &ignored, &again) == SOCKS_MORE);
        assert(r.named || r.name[0] == '\0');
        if (r.name[0])
                assert(hostname_canonical(r.name, strlen(r.name), name) > 0 && str_eq(name, r.name));
        return 0;
}
