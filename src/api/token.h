/* Tokens for machines: what is behind /api/capabilities/tokens. */
#pragma once

#include "api/signin.h"

int token_load(void *data, const void *row); /* for store_load; data: struct signin */
void token_tidy(struct signin *s);           /* forgets what has expired, and writes down what was used */
void token_close(struct signin *s);
void token_used(struct api *a, const char *jti);

void token_make(struct exchange *x);
void token_list(struct exchange *x);
void token_end(struct exchange *x);
