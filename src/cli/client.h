/* The verbs that talk to the daemon, and what they share. Each has its table (args.h) and a function that gets its own
 * arguments and returns the exit status. */
#pragma once

#include "cli/args.h"
#include "cli/talk.h"

#define CLIENT_VERBS(X)                                                                                                \
        X(create)                                                                                                      \
        X(list)                                                                                                        \
        X(show)                                                                                                        \
        X(exec)                                                                                                        \
        X(shell)                                                                                                       \
        X(attach)                                                                                                      \
        X(pause)                                                                                                       \
        X(unpause)                                                                                                     \
        X(stop)                                                                                                        \
        X(resume)                                                                                                      \
        X(quarantine)                                                                                                  \
        X(delete)                                                                                                      \
        X(snapshot)                                                                                                    \
        X(snapshots)                                                                                                   \
        X(fork)                                                                                                        \
        X(rollback)                                                                                                    \
        X(diff)                                                                                                        \
        X(export)                                                                                                      \
        X(import)                                                                                                      \
        X(cp)                                                                                                          \
        X(ls)                                                                                                          \
        X(runs)                                                                                                        \
        X(logs)                                                                                                        \
        X(cancel)                                                                                                      \
        X(ps)                                                                                                          \
        X(top)                                                                                                         \
        X(events)                                                                                                      \
        X(evidence)                                                                                                    \
        X(owners)                                                                                                      \
        X(policy)                                                                                                      \
        X(secret)                                                                                                      \
        X(ssh_key)                                                                                                     \
        X(forward)                                                                                                     \
        X(image)                                                                                                       \
        X(up)                                                                                                          \
        X(down)                                                                                                        \
        X(health)                                                                                                      \
        X(login)                                                                                                       \
        X(logout)                                                                                                      \
        X(sign_in)                                                                                                     \
        X(completion)

#define CLIENT_DECLARE(name)                                                                                           \
        extern const struct args_verb name##_verb;                                                                     \
        int cmd_##name(int argc, char **argv);
CLIENT_VERBS(CLIENT_DECLARE)

/* Reads the command line: true to go on, false with the exit status in *ret (--help, or an error that was printed). */
bool client_begin(const struct args_verb *v, int *argc, char **argv, void *options, int *ret);

/* NAME[=@FILE] of secrets as fields of an object; option names them in errors. */
int client_secrets(struct talk_request *q, const char *key, const char *option, const struct args_list *list,
                   struct err *err);

/* "KEY=VALUE" pairs as an object; of two with one key the later counts. */
int client_pairs(struct talk_request *q, const char *key, const char *option, const struct args_list *list,
                 bool from_environment, struct err *err);

/* A profile by name, or the text of a file: the daemon has no eyes for the caller's files. */
int client_profile(struct talk_request *q, const char *profile, struct err *err);

/* A number on the command line: run numbers, ports. */
int client_number(const char *text, const char *what, uint64_t most, uint64_t *ret, struct err *err);

/* For verbs that show something. False: that is all, with the exit status in *ret: it was refused, or the result was
 * printed as it is, because of --json. */
bool client_ask(struct talk *t, const struct args_common *o, struct talk_request *q, const char **ret_result, int *ret);

/* Prints the id of what was made, or with --json all of it. 0: the status of the command. */
int client_id(const struct args_common *o, const char *json);
/* Prints "id  name  state" of a sandbox, or the object as it is. */
void client_sandbox(const struct args_common *o, const char *json);
