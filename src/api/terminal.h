/* A run over a WebSocket, made for terminals. The client sends bytes as binary messages, and as text messages what the
 * local protocol calls control: {"resize": [rows, cols]}, {"signal": n}, {"detach": true}. It gets the run's output as
 * binary messages, and as text messages {"started": {"run", "out", "err"}} first, {"error_output": …} for the errors of
 * a run without a terminal, {"refused": …} for what could not be understood, and {"exit": the run} last. */
#pragma once

#include "api/exchange.h"

void terminal_begin(struct exchange *x);
extern const struct view view_terminal;
