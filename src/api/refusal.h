/* What libmicrohttpd refuses by itself, before anybody here hears of it: a request line that is none, a head that does
 * not fit, a chunk that is too large. It answers such with pages of its own, in HTML, and has no option to change that.
 *
 * It queues them with MHD_queue_response, which it exports and so calls by its name: a function of that name in the
 * program comes first. There is one here. What exchanges answer is queued with refusal_queue; whatever else is queued
 * is a page of the library's, and our JSON goes out instead. A libmicrohttpd that does not call it by its name would
 * show its pages again, which tests/api/test_left_refusals.py would see. */
#pragma once

#include <microhttpd.h>

/* An answer of ours: MHD_queue_response of the library. */
enum MHD_Result refusal_queue(struct MHD_Connection *c, unsigned status, struct MHD_Response *r);
