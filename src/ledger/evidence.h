/* The form of evidence is in evidence.c. */
#pragma once

#include "ledger/ledger.h"

/* The text of an evidence file, which may come from anybody. The verdict has to be empty. */
int evidence_check(const char *text, size_t size, struct ledger_verdict *ret, struct err *err);
