/* A daemon on another host. stockade-remote speaks with it (TLS, sign-in, WebSocket) and hands us the local protocol
 * over a socket pair, so that no verb knows the difference and this program stays static. */
#pragma once

#include "cli/talk.h"

/* The server that is to be asked; NULL: a daemon of this host. --socket and --server win over STOCKADE_SERVER, and that
 * over the places where a socket is looked for. */
const char *afar_server(const struct args_common *o);

/* As talk_connect. -EKEYREJECTED: nobody is signed in there, or not any more. */
int afar_connect(struct talk *t, const char *server, struct err *err);
void afar_end(pid_t *helper); /* after the socket was closed: waits until it has ended too */

/* Replaces this process by stockade-remote with these words. Returns only if that fails. */
int afar_become(const char *verb, char *const *words, struct err *err);
