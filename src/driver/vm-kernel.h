/* From an installed kernel image to one that a microVM boots: the ELF inside, uncompressed, with its PVH entry. */
#pragma once

#include "base/buf.h"

#define VM_RELEASE_SIZE 128

/* Takes an x86 boot image apart. ret_kernel gets the ELF, ret_release what the image says it is
 * ("6.1.0-54-cloud-amd64"). The image is read as if hostile. */
int vm_kernel_unpack(const uint8_t *image, size_t size, struct buf *ret_kernel, char ret_release[VM_RELEASE_SIZE],
                     struct err *err);

/* Is this a module of that kernel, for x86-64, not compressed? */
int vm_module_check(const uint8_t *bytes, size_t size, const char *release, struct err *err);
