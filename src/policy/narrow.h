/* What `sealed` means: a child may only narrow. */
#pragma once

#include "policy/schema.h"

/* 0 if the child's value for this row is no wider than its sealed parent's; otherwise ERR_REFUSED, and err says which
 * key widens what. */
int narrow_check(const struct schema_row *row, const struct policy *parent, const struct policy *child,
                 struct err *err);
