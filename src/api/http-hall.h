/* The hall: where a connection waits until a whole head has come from it, before libmicrohttpd hears of it.
 *
 * Whoever says nothing, or a byte now and then, never gets further. Such a one costs some hundred bytes and an entry in
 * the loop, nothing is done for it between its bytes, and it is ended here by a close: a few in each turn of the loop,
 * however many go or are due at once. Whoever has gone is not counted any more, also before that. libmicrohttpd looks
 * after all that are ready in one go, and would make the others wait for it. */
#pragma once

struct api;
struct link;

void hall_open(struct api *a);

/* The link has its descriptor, and is in no list; the hall has it from now on. It is given to http_admit or to
 * http_leave, perhaps before this returns. */
void hall_enter(struct link *l);

void hall_close(struct api *a); /* nobody is heard any more */
