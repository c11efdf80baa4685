/* The one program of a small root: `sh -c SCRIPT` with `echo WORD [> FILE]`, `exit N`, `;` and `&&`. It is static and
 * needs nothing, so that a root folder with nothing else can be tested. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int echo(char *words) {
        char *file = strchr(words, '>');
        int out = 1;

        if (file) {
                *file++ = '\0';
                file[strcspn(file + 1, " ") + 1] = '\0';
                out = open(file + 1, O_WRONLY | O_CREAT | O_TRUNC, 0644);
                if (out < 0)
                        return 1;
        }
        size_t n = strlen(words);
        while (n > 0 && words[n - 1] == ' ')
                n--;
        words[n++] = '\n';
        return write(out, words, n) == (ssize_t)n ? 0 : 1;
}

int main(int argc, char **argv) {
        int status = 0, skip = 0;

        if (argc < 3)
                return 2;
        char *script = malloc(strlen(argv[2]) + 2);
        if (!script)
                return 2;
        (void)strcpy(script, argv[2]);
        for (char *part = script; part && *part;) {
                char *end = part + strcspn(part, ";&");
                char by = *end;
                char *next = by ? end + (by == '&' ? 2 : 1) : end;
                char one[512];

                (void)snprintf(one, sizeof one, "%.*s", (int)(end - part), part);
                char *word = one + strspn(one, " ");
                if (!skip && strncmp(word, "exit ", 5) == 0)
                        return atoi(word + 5);
                if (!skip && strncmp(word, "echo ", 5) == 0)
                        status = echo(word + 5);
                skip = by == '&' && status != 0;
                part = next;
        }
        return status;
}
