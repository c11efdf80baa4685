/* Puts host spellings to the gate's decisions, for test_spellings.py: one case per line in, one verdict per line out.
 *
 * The only argument is a file of rules as bytes. A case is a port, a space and the host's bytes in hex. The verdict is
 * tab-separated: what the bytes are ("name", "address" or "bad"), their canonical form, "yes" or "no" for whether a
 * name would be answered, the reason of the decision, its rule, and the rules whose host matches by itself. A host is
 * taken as the gate's parsers take it: an address if its text is exactly one, then a name, then nothing at all. */
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "gate/decide.h"

#define LINE_BYTES 8192

/* Spelled here: the test must not depend on how people are told. */
static const char *reason_text(enum gate_reason r) {
        return r == GATE_USED      ? "used"
               : r == GATE_NO_RULE ? "no-rule"
               : r == GATE_NO_PORT ? "no-port"
               : r == GATE_PRIVATE ? "private"
                                   : "other";
}

static int nibble(char c) {
        const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

        return at ? (int)(at - digits) : -1;
}

static void answer(const struct rules *rules, const char *bytes, size_t size, uint16_t port) {
        char name[HOSTNAME_SIZE], text[ADDRESS_TEXT_MAX];
        struct address address;
        const char *comma = "";

        if (address_parse(bytes, size, false, &address)) {
                struct decision d = decide_connect(rules, NULL, &address, port);

                address_print(&address, text);
                (void)printf("address\t%s\tno\t%s\t%d\t\n", text, reason_text(d.reason), d.rule);
                return;
        }
        if (hostname_canonical(bytes, size, name) < 0) {
                (void)printf("bad\t\tno\t\t-1\t\n");
                return;
        }
        struct decision d = decide_connect(rules, name, NULL, port);
        (void)printf("name\t%s\t%s\t%s\t%d\t", name, decide_name(rules, name) ? "yes" : "no", reason_text(d.reason),
                     d.rule);
        for (size_t i = 0; i < rules->count; i++)
                if (hostname_matches(rules->items[i].host, name)) {
                        (void)printf("%s%zu", comma, i);
                        comma = ",";
                }
        (void)printf("\n");
}

int main(int argc, char **argv) {
        static struct rules rules;
        char line[LINE_BYTES], *data;
        size_t size;
        struct err err = {0};

        if (argc != 2)
                return 2;
        if (fd_read_file(AT_FDCWD, argv[1], RULES_MAX_SIZE, false, &data, &size, &err) < 0 ||
            rules_check(data, size, &err) < 0 || rules_load(&rules, data, size) < 0) {
                err_print(&err);
                return 1;
        }
        free(data);
        while (fgets(line, sizeof line, stdin)) {
                char *hex, *end = strchr(line, '\n');
                unsigned long port = strtoul(line, &hex, 10);

                if (!end || *hex != ' ' || port > UINT16_MAX || (end - hex - 1) % 2 != 0)
                        return 2;
                /* memory of exactly the host's size, so that a sanitizer sees a read behind it */
                size_t host_size = (size_t)(end - hex - 1) / 2;
                char *host = malloc(host_size + !host_size);
                if (!host)
                        return 1;
                for (size_t i = 0; i < host_size; i++) {
                        int high = nibble(hex[1 + 2 * i]), low = nibble(hex[2 + 2 * i]);

                        if (high < 0 || low < 0)
                                return 2;
                        host[i] = (char)(high << 4 | low);
                }
                answer(&rules, host, host_size, (uint16_t)port);
                free(host);
        }
        rules_unload(&rules);
        return 0;
}
