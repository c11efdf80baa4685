/* The SSH door: what stockade-ssh may ask for, and for whom.
 *
 * stockade-ssh holds no right of its own. It hands us connections over the socket pair that the warden made; what
 * comes by them is a client of the local protocol that owns nothing. Such a client may ask `ssh-check` whether a key
 * may come in; if so, and for as long as that request stays open, there is a session with a token, and requests that
 * carry the token may use the one sandbox that the key is for. When the key is revoked, the sandbox deleted or
 * stockade-ssh gone, the session ends: everything that came by it is cut, and what it left running is told or killed.
 *
 * Keys are kept by fingerprint, per sandbox, in memory and in the store. One that a machine let in is good for as long
 * as the machine's token: it goes when that is revoked, or expires. */
#pragma once

#include "operator/call.h"
#include "operator/sandbox.h"

#define SSH_FINGERPRINT  52 /* "SHA256:" and 43 letters, with a NUL */
#define SSH_KEY_TEXT_MAX (16 * 1024)
#define SSH_KEYS_MAX     32 /* of one sandbox */

extern const struct front ssh_front;

struct ssh_key {
        struct table_node node; /* by sandbox and fingerprint */
        char *name;
        struct store_ssh_key row;
};

/* "ssh-ed25519 AAAA… comment", one line. Fills type, fingerprint and comment of the row. */
int ssh_key_parse(const char *text, struct store_ssh_key *ret, struct err *err);
/* The fingerprint of a key in base64 alone; false if it is none. */
bool ssh_key_fingerprint(const char *base64, char ret[SSH_FINGERPRINT]);

/* "listen": ["127.0.0.1:2222"]: where it is open, with the ports that the host gave. */
void ssh_door_listen(const struct core *o, struct json *j, const char *key);

struct ssh_key *ssh_key_find(struct core *o, const char *sandbox, const char *fingerprint);
struct ssh_key *ssh_key_next(struct core *o, const struct ssh_key *after);    /* all, in no order; NULL: the first */
struct ssh_key *ssh_key_put(struct core *o, const struct store_ssh_key *row); /* in memory; NULL: no memory */
void ssh_key_drop(struct core *o, struct ssh_key *k, const char *reason);     /* in memory; its sessions end */
void ssh_keys_expire(struct core *o); /* drops those whose time is over; before any is looked at */
/* Those that this capability let in are out from now on; the ticket of what has to be durable, 0: nothing. */
uint64_t ssh_keys_end(struct core *o, const char *capability);
uint64_t ssh_key_end(struct core *o, struct ssh_key *k, const char *reason); /* in memory, ledger and store; a ticket */
/* The sandbox that this user name (an id or a name) means to whoever has this key; NULL: none, or more than one. */
struct sandbox *ssh_key_sandbox(struct core *o, const char *user, const char *fingerprint);

/* A session begins: its token goes to the client as an event, and the call stays open until the session ends. */
void ssh_session_begin(struct call *c, struct sandbox *s, const char *fingerprint, const char *from);
/* Of a client that came by the door: may it ask this? Says for whom. False: the call was refused. */
bool ssh_session_admit(struct call *c);
bool ssh_session_has(const struct call *c, const struct sandbox *s); /* is this its sandbox? */
