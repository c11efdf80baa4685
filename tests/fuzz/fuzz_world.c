/* Fuzz target: what arrives at the listeners of `stockade verify`: questions for its name server, HTTP requests, TLS
 * hellos. Answers fit, begin with their question and say what was asked; names of attempts are plain words; nothing is
 * read behind the end. */
#include "tests/fuzz/fuzz.h"
#include "verify/world-own.h"

static bool is_printable(const char *text, size_t room) {
        size_t n = strnlen(text, room);

        for (size_t i = 0; i < n; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        return n < room;
}

static void check_question(const uint8_t *data, size_t size) {
        static _Atomic uint32_t rebinds;
        uint8_t answer[512];
        char name[256], attempt[48];
        unsigned type = 99;
        size_t room = 12 + size % 501, n = world_dns_answer(data, size, answer, room, name, &type, &rebinds);

        assert(is_printable(name, sizeof name));
        world_serve_attempt_of_name(name, attempt, sizeof attempt);
        assert(is_printable(attempt, sizeof attempt));
        if (n == 0)
                return;
        assert(n <= room && n >= 12 + 5 && size >= 12 + 5);
        assert(memcmp(answer, data, 2) == 0 && (answer[2] & 0x80) && memcmp(answer + 4, data + 4, 2) == 0);
        assert(answer[7] <= 4 && memcmp(answer + 8, "\0\0\0\0", 4) == 0);
}

static void check_request(const char *data, size_t size) {
        char attempt[48], answer[8192];
        bool last;
        size_t head = world_serve_head(data, size);

        assert(head <= size);
        world_serve_attempt("0123456789abcdef", data, size, attempt, sizeof attempt);
        assert(strspn(attempt, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(attempt));
        if (head == 0)
                return;
        for (size_t i = head; i < size; i++)
                if (world_serve_head(data, i) != head)
                        abort(); /* what follows changes nothing */
        (void)world_serve_body(data, head, &last);
        size_t n = world_serve_http(answer, sizeof answer, "198.51.100.10:80", attempt, data, head, size % 2);
        assert(n <= sizeof answer && (n == 0 || n > head));
        if (n > 0)
                assert(memcmp(answer + n - head, data, head) == 0);
}

static void check_hello(const uint8_t *data, size_t size) {
        char name[256] = "";
        int r = world_serve_hello(data, size, name, sizeof name);

        assert(r == 0 || r == -EAGAIN || r == -EINVAL);
        assert(is_printable(name, sizeof name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *exact = malloc(size + 1); /* of its own, so that a byte too far is seen */

        assert(exact);
        exact = realloc(exact, size > 0 ? size : 1);
        memcpy(exact, data, size);
        if (size > 0) {
                check_question(exact, size);
                check_request((const char *)exact, size);
                check_hello(exact, size);
        }
        free(exact);
        return 0;
}
