/* Pages for people: the web app, or in a build without it the small page that a one-time link leads to. */
#pragma once

#include "api/exchange.h"

void page_answer(struct exchange *x);       /* GET /, and every other path of the app: it finds its way by itself */
void page_asset_answer(struct exchange *x); /* GET /assets/… */
bool page_has_app(void);
