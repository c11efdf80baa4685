/* Which files of a workspace the host's own tools would execute, or obey, without being asked.
 *
 * Ordinary sources, Makefiles and package scripts are not in the table: a person starts those knowingly. */
#pragma once

#include "base/macro.h"

/* Why path (relative, any depth) is risky to bring to the host, or NULL. link says that it is a symbolic link: a link
 * in the place of a listed directory is as risky as what it would hold. */
const char *risk_of_path(const char *path, bool link);

/* Why a link at path with this target is risky by itself, or NULL: it may lead out of the workspace. */
const char *risk_of_link(const char *path, const char *target);
