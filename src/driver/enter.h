/* Inside a box, before the guest: reads the plan's seccomp program from its standard input, leaves that and the other
 * two streams for the null device, loads the program and becomes the guest. What the plan forbids is so forbidden by
 * the box's kernel too, and for everybody inside. Words: the guest's path and arguments. */
#pragma once

int enter_main(char **words);
