/* What a gate saw, as events of the ledger. A gate's words are a stranger's: they go into JSON strings, escaped, and
 * nowhere else. */
#pragma once

#include "base/buf.h"
#include "ledger/ledger.h"
#include "wire/gate.h"

/* net.use, dns.deny or net.deny, and its data. */
enum ledger_kind gate_record_kind(const struct gate_event *e);
void gate_record_data(struct buf *b, const struct gate_event *e);

/* Appends the event, and with the first refusal for a budget that is used up, once, budget.hit (*spent remembers). The
 * number of the last one, or -errno of ledger_append, and then it can be tried again. */
int64_t gate_record(struct ledger *l, const char *sandbox, const struct gate_event *e, bool *spent);

void gate_record_death(struct ledger *l, const char *owner, const char *why);
