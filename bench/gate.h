/* bench/gate: the parts of one run. A place (a network of our own, folders, profiles), a crew (server, clients,
 * proxies, sandboxes), rounds in which every row does the same, and a report. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "bench/measure.h"

#define GATE_ROUNDS_MAX 10000
#define GATE_SERVER     "203.0.113.10" /* a documentation address: public to the gate */
#define GATE_NAME       "bench.example.test"

/* Ways from the client to the server. */
enum gate_row {
        GATE_DIRECT,
        GATE_COPY,    /* a bare relay in the gate's place: read and write */
        GATE_SPLICE,  /* the same with splice */
        GATE_RELAY,   /* the gate, plain */
        GATE_CONNECT, /* the gate as an explicit proxy */
        GATE_TINYPROXY,
        GATE_SQUID,
        GATE_DIRECT_TLS,
        GATE_TERMINATED, /* the gate, TLS opened */
        GATE_ROWS,
};

enum gate_metric {
        GATE_ONE,  /* bytes a second, one stream */
        GATE_MANY, /* the same, 64 streams together */
        GATE_WORK, /* ns of processor time per MiB of one stream, of the process between */
        GATE_RATE, /* connections a second */
        GATE_P50,  /* ns from connect to the first byte */
        GATE_P95,
        GATE_NAMES_RATE, /* DNS answers a second */
        GATE_NAMES_P50,  /* ns */
        GATE_NAMES_P95,
        GATE_METRICS,
};

/* Sandboxes with and without a network. */
enum { GATE_WITHOUT, GATE_WITH, GATE_SORTS };

struct gate_memory {
        uint64_t rss_kib, pss_kib;
};

enum { GATE_IDLE, GATE_FULL, GATE_USED_UP, GATE_IDLE_TLS, GATE_MEMORIES };

struct gate_report {
        unsigned rounds, wanted, starts;          /* rounds that were measured, and asked for; starts of each sort */
        uint64_t *value[GATE_ROWS][GATE_METRICS]; /* by round; 0: none */
        char skip[GATE_ROWS][400];                /* why a row has no numbers */
        struct samples speak[GATE_SORTS], gone[GATE_SORTS];
        double *later[2]; /* ns, with minus without, of each pair of starts: until it speaks, until it is gone */
        size_t later_count;
        struct gate_memory memory[GATE_MEMORIES];
        uint64_t held; /* idle connections of GATE_FULL */
        char trouble[400];
};

extern const char *const gate_row_names[GATE_ROWS], *const gate_row_labels[GATE_ROWS];
extern const char *const gate_metric_names[GATE_METRICS];

/* gate-place.c */
struct gate_place {
        char folder[64];
        char stockade[4096];  /* absolute */
        char sibling[2][128]; /* launchers with a bare relay in the gate's place: copy, splice */
        char load[128];
        char plain[128], inspect[128];   /* profiles */
        char tinyproxy[128], squid[128]; /* their configuration */
};
int gate_place_open(struct gate_place *p, const char *stockade, struct err *err);
void gate_place_close(struct gate_place *p);

/* gate-crew.c: processes that are spoken to over pipes. */
struct gate_hand {
        pid_t pid;
        pid_t between; /* the process that passes its bytes on; 0: none */
        int to;
        FILE *from;
};
/* Starts a program; with answers, its standard input and output are ours. */
int gate_hire(struct gate_hand *h, const char *const *argv, bool answers, struct err *err);
int gate_hear(struct gate_hand *h, uint64_t ret[2], struct err *err); /* one answer */
int gate_ask(struct gate_hand *h, uint64_t ret[2], struct err *err, const char *order, ...) _printf_(4, 5);
void gate_dismiss(struct gate_hand *h);
/* The gate of a launcher becomes the process between; and what that one holds and has used. */
int gate_find(struct gate_hand *launcher, struct err *err);
int gate_memory_of(const struct gate_hand *h, struct gate_memory *ret, struct err *err);
uint64_t gate_work_of(const struct gate_hand *h); /* ns of processor time, all threads; 0: unknown */
/* Us and every client of ours before everything else on this machine, until the end. */
void gate_hurry(const char *load);
/* Starts argv, which says something and ends: ns until it spoke and until it was gone. */
int gate_time(const char *const *argv, uint64_t *ret_speak, uint64_t *ret_gone, struct err *err);

/* gate-report.c */
void gate_report_print(const struct gate_report *r);
int gate_report_json(const struct gate_report *r, const char *path, struct err *err);
bool gate_report_kept(const struct gate_report *r); /* every promise */
