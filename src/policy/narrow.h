/* What `sealed` means: a child may only narrow. */
#pragma once

#include "policy/schema.h"

/* 0 if the child's value for this row is no wider than its sealed parent's; otherwise ERR_REFUSED, and err says which
 * key widens what. */
int narrow_check(const struct schema_row *row, const struct policy *parent, const struct policy *child,
                 struct err *err);

/* An option changed this key: *changed becomes *p, and is left empty, unless *p is sealed and it would be wider. */
int narrow_adopt(const struct schema_row *row, struct policy *p, struct policy *changed, struct err *err);
