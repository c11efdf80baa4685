/* Where secrets of sandboxes are kept: in the store, each value sealed with a key of its sandbox, so that nobody has to
 * give them again after a restart. The keys come from the session secrets that the warden passes (auth/keyring.h); what
 * it wraps is wrapped again here when the current one is another than before.
 *
 * Without a session secret there is no vault: secrets are refused then, and those of before are missing. A value that
 * cannot be opened is missing too; its row stays until it is given again or wiped. */
#pragma once

#include "auth/keyring.h"
#include "operator/secret.h"

struct secret_vault;

/* After the sandboxes were loaded. What cannot be had is said in the log: nothing else is to suffer for it. */
void secret_vault_open(struct core *o);
void secret_vault_close(struct core *o);

/* For sessions, too. NULL: there is no session secret. */
const struct keyring *secret_vault_keys(const struct core *o);

/* Whether a value could be kept; for whoever is about to begin something that needs it. */
int secret_vault_ready(const struct core *o, struct err *err);

/* Puts the values of a list, over what the sandbox has of the same names. Part of the caller's group of rows; the
 * ticket, 0 if there was nothing to put, STORE_REFUSED if something could not be sealed. */
uint64_t secret_vault_put(struct sandbox *s, const struct secret *list);
uint64_t secret_vault_remove(struct sandbox *s); /* all of it, whether it can be opened or not */

/* For `health`: which session secret is current, how many others there are, and whether they are still needed to open
 * what is stored. */
void secret_vault_json(const struct core *o, struct json *j, const char *key);
