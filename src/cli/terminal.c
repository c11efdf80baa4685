/* The caller's terminal. State is global because signal handlers need it, and there is one terminal. */
#include "cli/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "wire/local.h"

static struct termios before, changed;
static volatile sig_atomic_t is_changed;

bool terminal_is(int fd) {
        return isatty(fd);
}

/* Safe in signal handlers. */
void terminal_restore(void) {
        if (is_changed)
                (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
        is_changed = 0;
}

static void on_end(int number) {
        terminal_restore();
        (void)raise(number); /* the handler is gone by now: the default ends us */
}

static int take(void (*change)(struct termios *t), struct err *err) {
        static const int ends[] = {SIGABRT, SIGSEGV, SIGBUS,  SIGILL, SIGFPE, SIGTRAP,
                                   SIGSYS,  SIGINT,  SIGTERM, SIGHUP, SIGQUIT};
        struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
        static bool prepared;

        if (!isatty(STDIN_FILENO))
                return 0;
        if (!is_changed && tcgetattr(STDIN_FILENO, &before) < 0)
                return err_set(err, -errno, "cannot read the terminal's settings");
        changed = before;
        change(&changed);
        if (!prepared) {
                for (size_t i = 0; i < ELEMENTSOF(ends); i++)
                        (void)sigaction(ends[i], &action, NULL);
                (void)atexit(terminal_restore);
                prepared = true;
        }
        is_changed = 1;
        if (tcsetattr(STDIN_FILENO, TCSADRAIN, &changed) < 0)
                return err_set(err, -errno, "cannot change the terminal's settings");
        return 0;
}

static void make_quiet(struct termios *t) {
        t->c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
        t->c_cc[VMIN] = 1;
        t->c_cc[VTIME] = 0;
}

int terminal_raw(struct err *err) {
        return take(cfmakeraw, err);
}

int terminal_quiet(struct err *err) {
        return take(make_quiet, err);
}

void terminal_again(void) {
        if (is_changed)
                (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &changed);
}

bool terminal_size(uint64_t *rows, uint64_t *columns) {
        static const int where[] = {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO};
        struct winsize size;

        for (size_t i = 0; i < ELEMENTSOF(where); i++)
                if (ioctl(where[i], TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
                        *rows = MIN((uint64_t)size.ws_row, (uint64_t)LOCAL_EXTENT_MAX);
                        *columns = MIN((uint64_t)size.ws_col, (uint64_t)LOCAL_EXTENT_MAX);
                        return true;
                }
        return false;
}
