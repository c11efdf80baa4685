/* The kernel's table of sockets, as a sandbox shows it to us: hostile text, read line by line. A line that is not one
 * counts for nothing. No I/O, no allocation. */
#include "api/port-table.h"

#define LISTEN "0A" /* a state, as the kernel prints it */

static int digit(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "  0: 0100007F:0BB8 00000000:0000 0A …": the port, or 0. */
static unsigned read_line(const char *line, size_t size) {
        const char *words[4];
        size_t sizes[4], count = 0, at = 0;
        unsigned port = 0;

        while (count < 4 && at < size) {
                while (at < size && line[at] == ' ')
                        at++;
                words[count] = line + at;
                while (at < size && line[at] != ' ')
                        at++;
                sizes[count] = (size_t)(line + at - words[count]);
                count += sizes[count] > 0;
        }
        if (count < 4 || sizes[3] != 2 || memcmp(words[3], LISTEN, 2) != 0 || (sizes[1] != 13 && sizes[1] != 37) ||
            words[1][sizes[1] - 5] != ':')
                return 0;
        for (size_t i = sizes[1] - 4; i < sizes[1]; i++) {
                int d = digit(words[1][i]);

                if (d < 0)
                        return 0;
                port = port << 4 | (unsigned)d;
        }
        return port;
}

static void note(uint16_t ports[PORT_TABLE_MAX], size_t *count, uint16_t port) {
        size_t at = 0;

        while (at < *count && ports[at] < port)
                at++;
        if ((at < *count && ports[at] == port) || *count == PORT_TABLE_MAX)
                return;
        memmove(ports + at + 1, ports + at, (*count - at) * sizeof *ports);
        ports[at] = port;
        (*count)++;
}

void port_table_read(const char *text, size_t size, uint16_t ports[PORT_TABLE_MAX], size_t *count) {
        for (size_t at = 0; at < size;) {
                const char *end = memchr(text + at, '\n', size - at);
                size_t length = end ? (size_t)(end - text) - at : size - at;
                unsigned port = read_line(text + at, length);

                if (port > 0)
                        note(ports, count, (uint16_t)port);
                at += length + 1;
        }
}
