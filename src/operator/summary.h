/* A policy for people and for forms: what a sandbox with it may do, in sentences, in numbers, and whole. */
#pragma once

#include "operator/operator.h"
#include "policy/profile.h"

/* Members of an open object: "summary" (all sentences), "sections" (the same under their titles), "limits" (numbers;
 * null: none), "network", "programs" (null: any), "secrets", "effective" (the policy, as JSON). 0 or -ENOMEM. */
int summary_json(const struct policy *p, struct json *j);

/* An array of every key that can be laid over a profile: what its value looks like, between which bounds, and the
 * ceiling of this host where there is one. */
void summary_schema_json(const struct core *o, struct json *j, const char *key);
