/* One connection, in a process of its own: key exchange, authentication by public key, channels.
 *
 * The process is confined before it reads a byte of the client's. It has 20 seconds until somebody is authenticated. It
 * speaks for nobody until the operator has said for whom, and ends when the operator ends the session: a key that is
 * revoked, a sandbox that is deleted. */
#pragma once

#include <libssh/server.h>

#include "ssh/lane.h"

#define SESSION_CHANNELS 16

struct session {
        ssh_session ssh;
        ssh_event event;
        struct ssh_server_callbacks_struct callbacks;
        int fd;
        char from[64];
        unsigned tries;
        bool in;                 /* authenticated */
        bool over;               /* to be disconnected */
        struct door door;        /* for whom */
        struct door_stream life; /* open as long as the session is */
        struct lane channels[SESSION_CHANNELS];
};

/* Serves the client at fd until it is gone; for a process of its own. in is called when somebody is authenticated. */
void session_serve(ssh_bind bind, int fd, const char *from, void (*in)(void));

/* Tells the ledger what is being done: {"what": …, "command": …}; command may be NULL. */
void session_note(struct session *s, const char *what, const char *command);
