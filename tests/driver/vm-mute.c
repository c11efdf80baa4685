/* The first process of a machine that never says anything. */
#include <unistd.h>

int main(void) {
        for (;;)
                (void)pause();
}
