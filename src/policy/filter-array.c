/* Made into a program at build time: prints the widest filter that any profile gets, as C. It is put below the filter
 * of every plan, so that a plan whose own filter lets everything through gains nothing. */
#include <inttypes.h>
#include <stdio.h>

#include "policy/filter.h"

int main(void) {
        static struct sock_filter program[FILTER_ROOM];
        struct filter_options widest = {.no_memfd = false, .no_ptrace = false};
        struct err err = {0};

        int count = filter_compile(&widest, program, ELEMENTSOF(program), &err);
        if (count < 0) {
                err_print(&err);
                return 1;
        }
        (void)printf("#include \"cell/base-filter.h\"\n\nconst struct sock_filter base_filter[] = {\n");
        for (int i = 0; i < count; i++)
                (void)printf("        {0x%04x, %u, %u, 0x%08" PRIx32 "},\n", program[i].code, program[i].jt,
                             program[i].jf, program[i].k);
        (void)printf("};\nconst size_t base_filter_size = sizeof base_filter;\n");
        return 0;
}
