/* What this host's runsc can do, tried: a box with nothing in it but our own program. */
#pragma once

int gvisor_probe(void); /* prints the object of docs/protocol/driver.md; an exit status */
int gvisor_hello(void); /* inside that box */
