/* What the command line says to the operator on its local socket: docs/protocol/local.md is the specification.
 *
 * A stream socket; one request per connection. Frames: payload size (u32, little-endian), kind (u8), three bytes zero.
 * The first frame is a request (JSON object with "verb"); then, as the verb has it, input and control frames from the
 * client and output and event frames from the operator, and one answer, after which the operator closes.
 *
 *   answer: {"ok": true, "result": {…}}   or   {"ok": false, "error": {"code": "not_found", "message": "…", "hint":
 * "…"}}
 *
 * Who asks is known from the socket (SO_PEERCRED): its uid is the owner, "uid:1000"; root and the operator's own user
 * may act for all. Offsets of output frames are counted by the client, which may come back with "attach" from there. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"

#define LOCAL_SOCKET     "operator.sock" /* in the run folder */
#define LOCAL_HEAD       8
#define LOCAL_FRAME_MAX  (256U * 1024)
#define LOCAL_JSON_MAX   (128U * 1024) /* of a request */
#define LOCAL_ANSWER_MAX (16U << 20)   /* of an answer, which may be a long list */
#define LOCAL_EXTENT_MAX 1000          /* rows, or columns, of a terminal; the least is 1 */

enum local_kind {
        LOCAL_REQUEST = 'Q', /* JSON, from the client, first and once */
        LOCAL_ANSWER = 'A',  /* JSON, from the operator, last and once */
        LOCAL_EVENT = 'E',   /* JSON: something happened (events, progress, run started) */
        LOCAL_INPUT = 'I',   /* bytes of standard input, of a file, of an archive */
        LOCAL_FINISH = 'F',  /* no more input; empty */
        LOCAL_OUTPUT = 'O',  /* bytes of standard output, a terminal, a file, an archive */
        LOCAL_ERRORS = 'R',  /* bytes of standard error */
        LOCAL_CONTROL = 'C', /* JSON from the client: {"resize": [rows, cols]}, {"signal": 15}, {"detach": true} */
};

/* Appends one frame. More than its kind may carry (LOCAL_FRAME_MAX; REQUEST and ANSWER have their own) marks the
 * buffer as failed; so does a buffer whose own cap is reached, which is 1 MiB unless it says otherwise. */
void local_put(struct buf *b, enum local_kind kind, const void *data, size_t size);

/* The frame at the beginning of size bytes: its whole length (head and payload), 0 if it is not complete yet, -EBADMSG
 * if it can be none, -EMSGSIZE if its payload is larger than max, or than its kind may carry. What it can be is said as
 * soon as the head is there. *ret_* are untouched unless a frame was found; the data is inside bytes. */
ssize_t local_next(const uint8_t *bytes, size_t size, size_t max, enum local_kind *ret_kind, const uint8_t **ret_data,
                   size_t *ret_size);
