/* Asks a Firecracker one question after the other, for tests: fc-ask SOCKET QUESTION… . Prints a line for each: its
 * name, and what came of it. */
#include <stdio.h>

#include "driver/fc-api.h"

static const struct fc_files files = {"/state", "/memory"};

static int ask_machine(struct fc *f, struct err *err) {
        return fc_set_machine(f, 128, 2, err);
}

static int ask_boot(struct fc *f, struct err *err) {
        return fc_set_boot(f, &(struct fc_boot){"/kernel", "/initrd", "quiet reboot=k panic=-1"}, err);
}

static int ask_drive(struct fc *f, struct err *err) {
        return fc_set_drive(f, &(struct fc_drive){"disk", "/disk", true}, err);
}

static int ask_link(struct fc *f, struct err *err) {
        return fc_set_link(f, "link", "box", err);
}

static int ask_vsock(struct fc *f, struct err *err) {
        return fc_set_vsock(f, "/v.sock", err);
}

static int ask_save(struct fc *f, struct err *err) {
        return fc_save(f, &files, err);
}

static int ask_load(struct fc *f, struct err *err) {
        return fc_load(f, &files, false, err);
}

static int ask_load_and_run(struct fc *f, struct err *err) {
        return fc_load(f, &files, true, err);
}

/* As if nothing had been said yet, or all of it: the other side has to judge then. */
static int forget(struct fc *f, struct err *err) {
        (void)err;
        f->state = FC_FRESH;
        return 0;
}

static int pretend_running(struct fc *f, struct err *err) {
        (void)err;
        f->state = FC_RUNNING;
        return 0;
}

static int pretend_paused(struct fc *f, struct err *err) {
        (void)err;
        f->state = FC_PAUSED;
        return 0;
}

static const struct {
        const char *name;
        int (*run)(struct fc *f, struct err *err);
} questions[] = {{"machine", ask_machine},
                 {"boot", ask_boot},
                 {"drive", ask_drive},
                 {"link", ask_link},
                 {"vsock", ask_vsock},
                 {"entropy", fc_set_entropy},
                 {"start", fc_start},
                 {"pause", fc_pause},
                 {"resume", fc_resume},
                 {"save", ask_save},
                 {"load", ask_load},
                 {"load-and-run", ask_load_and_run},
                 {"forget", forget},
                 {"pretend-running", pretend_running},
                 {"pretend-paused", pretend_paused}};

static int run(struct fc *f, const char *name, struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(questions); i++)
                if (str_eq(questions[i].name, name))
                        return questions[i].run(f, err);
        return err_set(err, ERR_INPUT, "there is no such question");
}

int main(int argc, char **argv) {
        struct err err = {0};
        struct fc f;

        if (argc < 2)
                return 2;
        int r = fc_open(&f, argv[1], &err);
        (void)printf("open: %s\n", r < 0 ? err.text : f.release);
        for (int i = 2; r >= 0 && i < argc; i++)
                (void)printf("%s: %s\n", argv[i], run(&f, argv[i], &err) < 0 ? err.text : "done");
        return r < 0;
}
