/* SHA-256 (FIPS 180-4): for what others name by it, such as the fingerprints of SSH keys. Our own names are BLAKE2b's
 * (base/hash.h). */
#pragma once

#include "base/macro.h"

#define SHA256_SIZE 32

void sha256(const void *data, size_t size, uint8_t ret[SHA256_SIZE]);
