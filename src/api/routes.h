/* Handlers of routes that need more than their fields passed on. */
#pragma once

#include "api/route.h"

/* routes-run.c */
void exec_begin(struct exchange *x);
void run_show(struct exchange *x);
void run_logs(struct exchange *x);
void run_signal_begin(struct exchange *x);
void terminal_make(struct exchange *x);
extern const struct view view_run_one, view_background, view_terminal_made, view_terminals, view_done, view_deleted;

/* routes-file.c */
void file_get(struct exchange *x);
void snapshot_file_get(struct exchange *x);
void file_put(struct exchange *x);
extern const struct view view_file;

/* routes-ssh.c */
void ssh_remove_begin(struct exchange *x);
extern const struct view view_ssh_key, view_ssh_user;

/* ready.c */
void health_answer(struct exchange *x);
void ready_answer(struct exchange *x);

/* provision.c */
void provision_begin(struct exchange *x);
extern const struct view view_provisions, view_provision;

/* routes-host.c */
void list_begin(struct exchange *x);
void list_all_begin(struct exchange *x);
void operator_health_begin(struct exchange *x);
void create_begin(struct exchange *x);
void policy_begin(struct exchange *x);
void policy_change_begin(struct exchange *x);
void usage_history_begin(struct exchange *x);
void events_search_begin(struct exchange *x);
void profile_check_begin(struct exchange *x);
void events_begin(struct exchange *x);
void diff_begin(struct exchange *x);
void secrets_begin(struct exchange *x);
void openapi_answer(struct exchange *x);
void capabilities_answer(struct exchange *x);
extern const struct view view_policy, view_secrets_set, view_secrets_wiped, view_deleted_sandbox;
