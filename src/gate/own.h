/* Is an address one of this host's own? What listens there thinks that only the host, or only its firewall's friends,
 * can reach it; a gate that connects from within is neither stopped by that firewall nor by the provider's. */
#pragma once

#include "base/address.h"

int own_init(struct err *err); /* before confinement */
/* Would a packet to it stay on this host? True also when that cannot be found out. Sends nothing to anybody. */
bool own_address(const struct address *a);
