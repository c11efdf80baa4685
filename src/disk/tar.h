/* The changes as an archive, so that nothing is lost when they are not applied.
 *
 * POSIX pax format, readable by GNU tar, bsdtar and python. The first member is always .stockade/removed: the removed
 * paths, each ended by a NUL. The second, .stockade/skipped, lists in the same way what an archive does not carry
 * (devices, sockets, fifos). Then follow added and changed entries under their own names, sparse files with their
 * holes. Owners are those of the workspace; setuid and setgid bits and extended attributes are left out. */
#pragma once

#include "disk/diff.h"

int tar_write(const struct diff *d, int upper, int out, struct err *err);
