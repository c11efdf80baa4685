/* The programs that the bench starts beside the floor: stockade itself, bwrap, runc, docker, runsc.
 *
 * Each gets the same tree (tree.h), /usr read-only, a sized /tmp, no network, and runs /usr/bin/true. What is not
 * installed, or has no daemon to talk to, is skipped with a reason; nothing is installed, pulled or started for it. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

#define PEERS_ARGS 128

struct peer {
        const char *name;
        char program[256]; /* absolute path; empty when skipped */
        const char *argv[PEERS_ARGS];
        char skip[256]; /* why it does not run here */
};

enum { PEER_BARE, PEER_STOCKADE, PEER_BWRAP, PEER_RUNC, PEER_DOCKER, PEER_RUNSC, PEERS };

struct peers {
        char dir[64];    /* temporary, ours; holds the tree and the runc bundle */
        char root[96];   /* dir/root: the filled tree, also the floor's template */
        char etc[112];   /* dir/root/etc */
        char bundle[96]; /* dir/bundle */
        char state[96];  /* dir/state: runc's own */
        struct peer peer[PEERS];
};

/* Makes the temporary directory and finds out which programs can run. image is what docker would run. */
int peers_open(struct peers *p, const char *stockade, const char *image, struct err *err);
void peers_close(struct peers *p); /* removes the directory */

/* Starts argv and waits for it. Returns the exit status, 128 + signal, or -errno when it could not start. */
int peers_run(const char *program, const char *const *argv);

/* Starts argv and leaves it running. */
int peers_spawn(const char *program, const char *const *argv, pid_t *ret_pid);
