/* Inside a box, before the guest: reads the guest's secret (wire/box.h) and the plan's seccomp program from its
 * standard input, leaves its streams, loads the program and becomes the guest, which finds the secret on its own. What
 * the plan forbids is so forbidden by the box's kernel too, and for everybody inside. Words: the guest's path and
 * arguments. */
#pragma once

int enter_main(char **words);
