/* Keys and signers. */
#include "remote/key.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "remote/keep.h"
#include "remote/keystore.h"

#define KEY_NAME "key"

enum { FILE_MAX = 64 << 10, PASSPHRASE_MAX = 1024, WORDS_MAX = 32, SIGNER_MS = 300000 };

/* --- asking ---------------------------------------------------------------------------------------------------------
 */

/* A line, with the keys that mean something: the terminal does nothing by itself meanwhile, so that it is put back in
 * every case. -EINTR: Ctrl-C. */
static int read_line(int tty, char *ret, size_t size) {
        enum { INTERRUPT = 3, END = 4, BACK = 8, DELETE = 127 };
        size_t n = 0;
        char key;

        while (read(tty, &key, 1) == 1 && key != '\n' && key != '\r' && key != END) {
                if (key == INTERRUPT)
                        return -EINTR;
                if (key == BACK || key == DELETE)
                        n -= n > 0;
                else if (n + 1 < size)
                        ret[n++] = key;
        }
        ret[n] = '\0';
        return 0;
}

/* The terminal that is asked, for the signals that end us meanwhile. */
static struct termios before;
static int asked = -EBADF;

static void put_back_and_end(int number) {
        (void)tcsetattr(asked, TCSANOW, &before);
        (void)raise(number); /* as it would have been: the handler is gone */
}

static void catch_ends(bool yes) {
        static const int numbers[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
        struct sigaction a = {.sa_handler = yes ? put_back_and_end : SIG_DFL, .sa_flags = yes ? (int)SA_RESETHAND : 0};

        (void)sigemptyset(&a.sa_mask);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                (void)sigaction(numbers[i], &a, NULL);
}

int key_ask(const char *prompt, char *ret, size_t size, struct err *err) {
        _cleanup_fd_ int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        struct termios quiet;

        if (tty < 0 || tcgetattr(tty, &before) < 0)
                return err_set(err, ERR_REFUSED, "there is no terminal to ask for it");
        asked = tty;
        catch_ends(true);
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG);
        quiet.c_cc[VMIN] = 1;
        quiet.c_cc[VTIME] = 0;
        (void)tcsetattr(tty, TCSAFLUSH, &quiet); /* before anybody is asked to type */
        (void)fd_write_full(tty, prompt, strlen(prompt));
        int r = read_line(tty, ret, size);
        (void)tcsetattr(tty, TCSAFLUSH, &before);
        catch_ends(false);
        (void)fd_write_full(tty, "\n", 1);
        return r < 0 ? err_set(err, r, "nothing was said") : 0;
}

static int read_passphrase(const char *file, char ret[PASSPHRASE_MAX], struct err *err) {
        char *text = NULL;
        size_t size = 0;

        if (!file) {
                int r = key_ask("passphrase of the keystore: ", ret, PASSPHRASE_MAX, err);
                return r < 0 ? err_hint(err, "name a file that has it: --passphrase-file FILE") : 0;
        }
        int r = keep_read_private(AT_FDCWD, file, PASSPHRASE_MAX - 1, &text, &size, err);
        if (r < 0)
                return r;
        size = strcspn(text, "\r\n");
        memcpy(ret, text, size);
        ret[size] = '\0';
        explicit_bzero(text, PASSPHRASE_MAX - 1);
        free(text);
        return 0;
}

/* --- files ----------------------------------------------------------------------------------------------------------
 */

static int open_keystore(const char *text, size_t size, const char *passphrase_file, uint8_t ret[WALLET_KEY],
                         struct err *err) {
        char passphrase[PASSPHRASE_MAX];
        int r = json_check(text, size, err);

        if (r < 0)
                return err_prefix(err, r, "the keystore");
        r = read_passphrase(passphrase_file, passphrase, err);
        if (r == 0)
                r = keystore_open(text, passphrase, ret, err);
        explicit_bzero(passphrase, sizeof passphrase);
        return r;
}

int key_read(const char *path, const char *passphrase_file, uint8_t ret[WALLET_KEY], struct err *err) {
        _cleanup_fd_ int own = path ? -EBADF : keep_folder(err);
        char *text = NULL;
        size_t size = 0;

        if (!path && own < 0)
                return own;
        int r = keep_read_private(path ? AT_FDCWD : own, path ? path : KEY_NAME, FILE_MAX, &text, &size, err);
        if (r == -ENOENT && !path) {
                (void)err_set(err, ERR_REFUSED, "you have no key yet");
                return err_hint(err, "make one with --new-key, or name one with --key FILE; or use the link that "
                                     "'stockade sign-in' prints there: --link");
        }
        if (r < 0)
                return r;
        if (text[strspn(text, " \t\r\n")] == '{')
                r = open_keystore(text, size, passphrase_file, ret, err);
        else
                r = wallet_parse(text, size, ret, err);
        explicit_bzero(text, size);
        free(text);
        return r < 0 ? err_prefix(err, r, "'%.100s'", path ? path : KEY_NAME) : 0;
}

int key_make(const char *path, uint8_t ret[WALLET_KEY], struct err *err) {
        _cleanup_fd_ int own = path ? -EBADF : keep_folder(err);
        struct ethereum_address address;
        char text[2 * WALLET_KEY + 2];

        if (!path && own < 0)
                return own;
        do /* all but one of 2^127 are keys */
                if (getrandom(ret, WALLET_KEY, 0) != WALLET_KEY)
                        return err_set(err, -EIO, "could not make a key");
        while (wallet_address(ret, &address, NULL) == ERR_INPUT);
        _cleanup_fd_ int fd = openat(path ? AT_FDCWD : own, path ? path : KEY_NAME,
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST) {
                (void)err_set(err, ERR_REFUSED, "there is a key already%s%.100s", path ? ": " : "", path ? path : "");
                return err_hint(err, "leave --new-key out to use it, or name another file with --key");
        }
        if (fd < 0)
                return err_set(err, -errno, "cannot make '%.200s'", path ? path : KEY_NAME);
        wallet_format(ret, text);
        text[sizeof text - 2] = '\n';
        int r = fd_write_full(fd, text, sizeof text - 1);
        if (r == 0 && fsync(fd) < 0)
                r = -errno;
        explicit_bzero(text, sizeof text);
        if (r == 0)
                return 0;
        (void)unlinkat(path ? AT_FDCWD : own, path ? path : KEY_NAME,
                       0); /* half a key would be in the way of a whole one */
        return err_set(err, r, "cannot write '%.200s'", path ? path : KEY_NAME);
}

/* --- a program that signs -------------------------------------------------------------------------------------------
 */

/* In the child, or in its place: never returns. */
static void execute(char *command, int in, int out) {
        char *words[WORDS_MAX + 1], *rest = NULL;
        size_t n = 0;
        sigset_t none;

        for (char *w = strtok_r(command, " \t", &rest); w && n < WORDS_MAX; w = strtok_r(NULL, " \t", &rest))
                words[n++] = w;
        words[n] = NULL;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGPIPE, SIG_DFL);
        if (n > 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
                (void)execvp(words[0], words);
        _exit(errno == ENOENT ? 127 : 126);
}

/* Its standard output up to its end, or to what a signature can be at most. */
static int collect(int fd, char *ret, size_t size, uint64_t until) {
        size_t n = 0;

        while (n + 1 < size) {
                struct line l = {.fd = fd};
                int r = line_wait(&l, POLLIN, until);
                ssize_t got = r < 0 ? r : read(fd, ret + n, size - 1 - n);

                if (r < 0)
                        return r;
                if (got < 0 && errno != EINTR)
                        return -errno;
                if (got == 0)
                        break;
                n += got > 0 ? (size_t)got : 0;
        }
        ret[n] = '\0';
        return 0;
}

int key_sign_elsewhere(const char *command, const char *message, size_t size, char ret[WALLET_SIGNATURE],
                       struct err *err) {
        _cleanup_free_ char *words = strdup(command);
        int in[2], out[2], status = 0;
        char text[512] = "";

        if (!words || pipe2(in, O_CLOEXEC) < 0)
                return err_set(err, words ? -errno : -ENOMEM, "could not start the signer");
        _cleanup_fd_ int in_read = in[0], in_write = in[1];
        if (pipe2(out, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not start the signer");
        _cleanup_fd_ int out_read = out[0], out_write = out[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_set(err, -errno, "could not start the signer");
        if (pid == 0)
                execute(words, in_read, out_write);
        fd_close(&in_read);
        fd_close(&out_write);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)fd_write_full(in_write, message, size); /* at most 4 KiB: a pipe has room for that */
        fd_close(&in_write);
        int r = collect(out_read, text, sizeof text, line_now() + SIGNER_MS);
        if (r < 0)
                (void)kill(pid, SIGTERM);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (r < 0)
                return err_set(err, r, "the signer does not answer");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

                (void)err_set(err, ERR_REFUSED, "the signer '%.100s' %s (%d)", command,
                              code == 127   ? "was not found"
                              : code == 126 ? "cannot be executed"
                                            : "failed",
                              code);
                return err_hint(err, "its first word is a program in $PATH or a path, without a shell; set-id programs "
                                     "such as sudo get no rights from here");
        }
        size_t begin = strspn(text, " \t\r\n"), length = strcspn(text + begin, " \t\r\n");
        if (length >= WALLET_SIGNATURE || text[begin + length + strspn(text + begin + length, " \t\r\n")])
                return err_set(err, ERR_INPUT, "the signer printed something that is not a signature");
        memcpy(ret, text + begin, length);
        ret[length] = '\0';
        return 0;
}
