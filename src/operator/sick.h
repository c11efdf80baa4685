/* An operator that cannot begin: its store or its ledger is damaged, or a newer build's. */
#pragma once

#include "base/err.h"

/* Answers whoever connects to the listening socket `local` with this error, for some seconds, and until the warden says
 * or closes anything; then the caller ends, and the next operator looks whether it is better. */
void sick_answer(int local, int warden, const struct err *why);
