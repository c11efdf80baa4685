/* Requests: what the operator asks of the guest besides runs. Each has a row in the table of request.c and a struct of
 * its own that begins with struct request. It lives from its frame to its END, or to the end of the connection.
 *
 * Work is done in steps: a step reads, writes or lists a bounded amount and says whether it could go on at once. */
#pragma once

#include "base/err.h"
#include "guest/serve.h"

struct request_kind;

struct request {
        struct request *next, *previous;
        const struct request_kind *kind;
        uint32_t channel;
        uint32_t flags;
        bool ready;                       /* a step is wanted */
        uint64_t sent, credit, window;    /* DATA of ours */
        uint64_t received, taken, thanks; /* DATA of theirs: came, used, confirmed */
        uint64_t entries, skipped;        /* END says them where they are counted */
};

struct request_kind {
        size_t size;
        /* 0: it lives (or has ended itself by request_end); -errno: it ends so. */
        int (*begin)(struct guest *g, struct request *r, const struct guest_message *m);
        /* A bounded piece of work, called while there is room to say something. Sets ready to false to wait. */
        void (*step)(struct guest *g, struct request *r);
        /* Their DATA; NULL where there is none to be sent. Returns 0, or -errno to end. */
        int (*data)(struct guest *g, struct request *r, const uint8_t *bytes, size_t size);
        void (*finish)(struct guest *g, struct request *r);
        void (*free)(struct guest *g, struct request *r); /* what it holds; not the struct itself */
};

int request_begin(struct guest *g, const struct guest_message *m);
int request_data(struct guest *g, const struct guest_message *m);
int request_finish(struct guest *g, const struct guest_message *m);
int request_cancel(struct guest *g, const struct guest_message *m);
int request_credit(struct guest *g, const struct guest_message *m);
void request_drop_all(struct guest *g); /* the connection is gone */
bool request_pump(struct guest *g);     /* one step each; true if there is more to do */

/* For the kinds. */

/* Ends r with END and frees it. With an error and a format: a sentence, to which the errno's text is added. */
void request_end(struct guest *g, struct request *r, int error, const char *format, ...) _printf_(4, 5);

void request_end_with(struct guest *g, struct request *r, struct guest_message *end); /* with numbers of its own */

/* How many bytes of DATA may be sent now, and sending them. */
size_t request_window(const struct request *r);
void request_send(struct guest *g, struct request *r, const void *data, size_t size);

/* size bytes of their DATA have been used. */
void request_took(struct guest *g, struct request *r, size_t size);

void request_wake(struct guest *g, struct request *r);

/* One frame of this request's. */
void request_say(struct guest *g, const struct request *r, struct guest_message *m);

extern const struct request_kind list_kind, stat_kind, mkdir_kind, move_kind, usage_kind, read_kind, write_kind,
        write_if_kind, remove_kind, tar_out_kind, tar_in_kind, watch_kind, port_kind, processes_kind, runs_kind,
        leaf_end_kind;
