/* The table of routes. A test holds it against docs/openapi.yaml, and another asks every row with no token, a bad one,
 * a revoked one and somebody else's. */
#include "api/routes.h"

#include "api/instance.h"
#include "api/metrics.h"
#include "api/page.h"
#include "api/port.h"
#include "api/renew.h"
#include "api/signin.h"
#include "api/terminal.h"
#include "api/token.h"
#include "api/tunnel.h"
#include "api/views.h"

#define KIB (1024U)
#define MIB (1024U * KIB)
#define ALL SIZE_MAX / 2 /* streamed: nothing of it is kept */

#define S(rest) "/api/sandboxes/{sandbox}" rest
#define T       S("/live/terminal/sessions")

#define SOON 30000
#define LONG 120000
#define HOUR 3600000

static const struct route routes[] = {
        {"GET", "/api/sandboxes", AUTH_OWNER, RATE_READ, "list", NULL, "state limit:n cursor all:b", 0, SOON, NULL,
         list_begin, 0, 0},
        /* pages and what belongs to them: an address has as many at once as it has connections */
        {"GET", "/", AUTH_NONE, RATE_NONE, "", NULL, NULL, 0, SOON, NULL, page_answer, ROUTE_PAGE, 0},
        {"GET", "/sign-in", AUTH_NONE, RATE_NONE, "", NULL, NULL, 0, SOON, NULL, page_answer, ROUTE_PAGE, 0},
        {"GET", "/create", AUTH_NONE, RATE_NONE, "", NULL, NULL, 0, SOON, NULL, page_answer, ROUTE_PAGE, 0},
        {"GET", "/sandboxes/{rest}", AUTH_NONE, RATE_NONE, "", NULL, NULL, 0, SOON, NULL, page_answer, ROUTE_PAGE, 0},
        {"GET", "/operator/{rest}", AUTH_NONE, RATE_NONE, "", NULL, NULL, 0, SOON, NULL, page_answer, ROUTE_PAGE, 0},
        {"GET", "/assets/{rest}", AUTH_NONE, RATE_NONE, "", NULL, NULL, 0, SOON, NULL, page_asset_answer, ROUTE_PAGE,
         0},
        {"GET", "/health", AUTH_NONE, RATE_READ, "", NULL, NULL, 0, SOON, NULL, health_answer, 0, 0},
        {"GET", "/readyz", AUTH_NONE, RATE_READ, "", NULL, NULL, 0, LONG, NULL, ready_answer, 0, 0},
        {"GET", "/metrics", AUTH_LOCAL, RATE_READ, "", NULL, NULL, 0, SOON, NULL, metrics_answer, 0, 0},
        {"GET", "/api/capabilities", AUTH_NONE, RATE_READ, "", NULL, NULL, 0, SOON, NULL, capabilities_answer, 0, 0},

        {"GET", "/api/openapi.json", AUTH_NONE, RATE_READ, "", NULL, NULL, 0, SOON, NULL, openapi_answer, 0, 0},

        {"POST", "/api/auth/challenge", AUTH_NONE, RATE_AUTH, "", "address", NULL, 4 * KIB, SOON, NULL,
         signin_challenge, 0, 0},
        {"POST", "/api/auth/session", AUTH_NONE, RATE_AUTH, "", "nonce message signature link", NULL, 16 * KIB, SOON,
         NULL, signin_session, 0, 0},
        {"DELETE", "/api/auth/session", AUTH_SESSION, RATE_AUTH, "", NULL, NULL, 0, SOON, NULL, signin_end, ROUTE_ENDS,
         0},
        {"POST", "/api/auth/session/renew", AUTH_SESSION, RATE_AUTH, "", "", NULL, 4 * KIB, SOON, NULL, renew_answer, 0,
         0},
        {"GET", "/api/auth/whoami", AUTH_SESSION, RATE_READ, "", NULL, NULL, 0, SOON, NULL, signin_whoami, 0, 0},
        {"POST", "/api/auth/ticket", AUTH_SESSION, RATE_WRITE, "", "path", NULL, 4 * KIB, SOON, NULL, signin_ticket, 0,
         0},
        {"GET", "/api/capabilities/tokens", AUTH_SESSION, RATE_READ, "", NULL, NULL, 0, SOON, NULL, token_list, 0, 0},
        {"POST", "/api/capabilities/tokens", AUTH_SESSION, RATE_WRITE, "", "verbs resources expires_in about", NULL,
         16 * KIB, SOON, NULL, token_make, 0, 201},
        {"DELETE", "/api/capabilities/tokens/{jti}", AUTH_SESSION, RATE_WRITE, "", NULL, NULL, 0, SOON, NULL, token_end,
         ROUTE_ENDS, 0},

        {"POST", "/api/sandboxes", AUTH_OWNER, RATE_WRITE, "create",
         "profile profile_text name overrides allow image from_snapshot memory_only driver secrets key owner", NULL,
         MIB, LONG, NULL, create_begin, 0, 201},
        {"GET", "/api/profiles", AUTH_OWNER, RATE_READ, "profiles", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"GET", "/api/profiles/schema", AUTH_OWNER, RATE_READ, "profile-schema", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"POST", "/api/profiles/check", AUTH_OWNER, RATE_READ, "profile-check",
         "profile profile_text overrides allow image memory_only", NULL, 128 * KIB, SOON, NULL, profile_check_begin, 0,
         0},
        {"GET", S(""), AUTH_OWNER, RATE_READ, "show", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"DELETE", S(""), AUTH_OWNER, RATE_SANDBOX, "delete", NULL, "force:b key", 0, LONG, &view_deleted_sandbox, NULL,
         0, 0},
        {"POST", S("/stop"), AUTH_OWNER, RATE_SANDBOX, "stop", "key", NULL, 4 * KIB, LONG, &view_life, NULL, 0, 0},
        {"POST", S("/resume"), AUTH_OWNER, RATE_SANDBOX, "resume", "driver key", NULL, 4 * KIB, LONG, &view_life, NULL,
         0, 0},
        {"POST", S("/pause"), AUTH_OWNER, RATE_SANDBOX, "pause", "key", NULL, 4 * KIB, LONG, &view_life, NULL, 0, 0},
        {"POST", S("/unpause"), AUTH_OWNER, RATE_SANDBOX, "unpause", "key", NULL, 4 * KIB, LONG, &view_life, NULL, 0,
         0},
        {"POST", S("/quarantine"), AUTH_OWNER, RATE_SANDBOX, "quarantine", "reason", NULL, 4 * KIB, LONG, &view_life,
         NULL, 0, 0},
        {"POST", S("/fork"), AUTH_OWNER, RATE_WRITE, "fork", "name driver key", NULL, 4 * KIB, LONG, NULL, NULL, 0,
         201},
        {"GET", S("/policy"), AUTH_OWNER, RATE_READ, "show", NULL, NULL, 0, SOON, &view_policy, policy_begin, 0, 0},
        {"PATCH", S("/policy"), AUTH_OWNER, RATE_SANDBOX, "policy", "allow add check", NULL, 64 * KIB, SOON, NULL,
         policy_change_begin, 0, 0},
        {"GET", S("/usage"), AUTH_OWNER, RATE_READ, "usage", NULL, NULL, 0, SOON, &view_first, NULL, 0, 0},
        {"GET", S("/usage/history"), AUTH_OWNER, RATE_READ, "usage", NULL, "since_ms:n", 0, SOON, NULL,
         usage_history_begin, 0, 0},
        {"POST", "/api/usage", AUTH_SESSION, RATE_READ, "usage-recent", "sandboxes", NULL, 8 * KIB, SOON, NULL, NULL, 0,
         0},
        {"GET", S("/processes"), AUTH_OWNER, RATE_READ, "processes", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},

        {"POST", S("/exec"), AUTH_OWNER, RATE_SANDBOX, "exec",
         "command argv cwd env env_json stdin timeout_ms stream background tty rows cols key session_id", NULL, MIB,
         HOUR, &view_run, exec_begin, 0, 0},
        {"GET", S("/runs"), AUTH_OWNER, RATE_READ, "runs", NULL, "before:n max:n", 0, SOON, NULL, NULL, 0, 0},
        {"GET", S("/runs/{run}"), AUTH_OWNER, RATE_READ, "runs", NULL, NULL, 0, SOON, &view_run_one, run_show, 0, 0},
        {"GET", S("/runs/{run}/logs"), AUTH_OWNER, RATE_READ, "logs", NULL, "follow:b", 0, HOUR, &view_run, run_logs,
         ROUTE_TICKET, 0},
        {"GET", S("/runs/{run}/stream"), AUTH_OWNER, RATE_READ, "attach", NULL, "out:n err:n", 0, HOUR,
         &view_run_events, NULL, ROUTE_TICKET, 0},
        {"GET", S("/runs/{run}/ws"), AUTH_OWNER, RATE_READ, "attach", NULL, "out:n err:n", 0, HOUR, &view_terminal,
         terminal_begin, ROUTE_TICKET | ROUTE_UPGRADE, 101},
        {"POST", S("/runs/{run}/signal"), AUTH_OWNER, RATE_SANDBOX, "signal", "signal", NULL, 4 * KIB, SOON, &view_done,
         run_signal_begin, 0, 0},
        {"POST", S("/runs/{run}/input"), AUTH_OWNER, RATE_NONE, "input", "data", NULL, 128 * KIB, SOON, &view_done,
         NULL, 0, 0},
        {"POST", S("/runs/{run}/cancel"), AUTH_OWNER, RATE_SANDBOX, "cancel", "", NULL, 4 * KIB, SOON, NULL, NULL, 0,
         0},

        {"POST", T, AUTH_OWNER, RATE_SANDBOX, "exec", "cwd cols rows command env", NULL, 64 * KIB, LONG,
         &view_terminal_made, terminal_make, 0, 0},
        {"GET", T, AUTH_OWNER, RATE_READ, "runs", NULL, NULL, 0, SOON, &view_terminals, NULL, 0, 0},
        {"GET", T "/{run}/stream", AUTH_OWNER, RATE_READ, "attach", NULL, "out:n", 0, HOUR, &view_terminal_events, NULL,
         ROUTE_TICKET, 0},
        {"GET", T "/{run}/ws", AUTH_OWNER, RATE_READ, "attach", NULL, "out:n", 0, HOUR, &view_terminal, terminal_begin,
         ROUTE_TICKET | ROUTE_UPGRADE, 101},
        {"POST", T "/{run}/input", AUTH_OWNER, RATE_NONE, "input", "data", NULL, 128 * KIB, SOON, &view_done, NULL, 0,
         0},
        {"PATCH", T "/{run}", AUTH_OWNER, RATE_NONE, "resize", "rows cols", NULL, 4 * KIB, SOON, &view_done, NULL, 0,
         0},
        {"DELETE", T "/{run}", AUTH_OWNER, RATE_SANDBOX, "cancel", NULL, NULL, 0, SOON, &view_deleted, NULL, 0, 0},

        {"GET", S("/files"), AUTH_OWNER, RATE_SANDBOX, "get", NULL, "path:p", 0, HOUR, &view_file, file_get,
         ROUTE_TICKET, 0},
        {"PUT", S("/files"), AUTH_OWNER, RATE_SANDBOX, "put", NULL, "path:p mode:o", ALL, HOUR, NULL, file_put,
         ROUTE_INPUT, 0},
        {"DELETE", S("/files"), AUTH_OWNER, RATE_SANDBOX, "rm", NULL, "path:p recursive:b", 0, LONG, NULL, NULL, 0, 0},
        {"GET", S("/files/stat"), AUTH_OWNER, RATE_SANDBOX, "stat", NULL, "path:p", 0, SOON, NULL, NULL, 0, 0},
        {"POST", S("/files/move"), AUTH_OWNER, RATE_SANDBOX, "mv", "path to", NULL, 16 * KIB, SOON, NULL, NULL, 0, 0},
        {"POST", S("/files/folder"), AUTH_OWNER, RATE_SANDBOX, "mkdir", "path mode recursive", NULL, 16 * KIB, SOON,
         NULL, NULL, 0, 201},
        {"GET", S("/files/archive"), AUTH_OWNER, RATE_SANDBOX, "tar-out", NULL, "path:p", 0, HOUR, &view_bytes, NULL,
         ROUTE_TICKET, 0},
        {"PUT", S("/files/archive"), AUTH_OWNER, RATE_SANDBOX, "tar-in", NULL, "path:p", ALL, HOUR, NULL, NULL,
         ROUTE_INPUT, 0},
        {"GET", S("/files/watch"), AUTH_OWNER, RATE_SANDBOX, "watch", NULL, "path:p recursive:b", 0, HOUR, &view_events,
         NULL, ROUTE_TICKET, 0},

        {"GET", S("/ports"), AUTH_OWNER, RATE_READ, "connect", NULL, NULL, 0, SOON, &view_port_list, port_list_begin, 0,
         0},
        {"ANY", S("/port/{port}/{rest}"), AUTH_OWNER, RATE_SANDBOX, "connect", NULL, NULL, ALL, LONG, &view_port,
         port_begin, ROUTE_INPUT | ROUTE_TICKET, 0},
        /* of a port's own host name: no path of ours */
        {"", "/{sandbox}/{port}/{rest}", AUTH_OWNER, RATE_NONE, "connect", NULL, NULL, ALL, LONG, &view_port,
         port_begin, ROUTE_INPUT, 0},

        {"POST", S("/ssh"), AUTH_OWNER, RATE_SANDBOX, "ssh-key-add", "username public_key", NULL, 32 * KIB, SOON,
         &view_ssh_key, NULL, 0, 0},
        {"DELETE", S("/ssh"), AUTH_OWNER, RATE_SANDBOX, "ssh-key-remove", "username public_key fingerprint", NULL,
         32 * KIB, SOON, &view_ssh_key, ssh_remove_begin, 0, 0},
        {"GET", S("/ssh"), AUTH_OWNER, RATE_READ, "ssh-keys", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"GET", S("/ssh/user"), AUTH_OWNER, RATE_READ, "ssh-keys", NULL, NULL, 0, SOON, &view_ssh_user, NULL, 0, 0},

        {"GET", S("/secrets"), AUTH_OWNER, RATE_READ, "secrets", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"POST", S("/secrets"), AUTH_OWNER, RATE_SANDBOX, "secret", "env_json secrets", NULL, 256 * KIB, SOON,
         &view_secrets_set, secrets_begin, 0, 0},

        {"DELETE", S("/secrets"), AUTH_OWNER, RATE_SANDBOX, "secret-wipe", NULL, NULL, 0, SOON, &view_secrets_wiped,
         NULL, 0, 0},

        {"POST", S("/snapshot"), AUTH_OWNER, RATE_WRITE, "snapshot", "name key", NULL, 4 * KIB, LONG, NULL, NULL, 0,
         201},
        {"POST", S("/rollback"), AUTH_OWNER, RATE_SANDBOX, "rollback", "snapshot key", NULL, 4 * KIB, LONG, &view_life,
         NULL, 0, 0},
        {"GET", "/api/snapshots", AUTH_OWNER, RATE_READ, "snapshots", NULL, "sandbox all:b", 0, SOON, NULL, NULL, 0, 0},
        {"POST", "/api/snapshots/import", AUTH_OWNER, RATE_WRITE, "import", NULL, "name profile size:n", ALL, HOUR,
         NULL, NULL, ROUTE_INPUT, 201},
        {"DELETE", "/api/snapshots/{snapshot}", AUTH_OWNER, RATE_WRITE, "snapshot-delete", NULL, NULL, 0, LONG, NULL,
         NULL, 0, 0},
        {"GET", "/api/snapshots/{snapshot}/diff", AUTH_OWNER, RATE_READ, "diff", NULL, "to", 0, LONG, &view_changes,
         diff_begin, 0, 0},
        {"GET", "/api/snapshots/{snapshot}/files", AUTH_OWNER, RATE_READ, "export", NULL, "path:p", 0, LONG, &view_file,
         snapshot_file_get, ROUTE_TICKET, 0},
        {"GET", "/api/snapshots/{snapshot}/export", AUTH_OWNER, RATE_READ, "export", NULL, NULL, 0, HOUR, &view_bytes,
         NULL, ROUTE_TICKET, 0},

        {"GET", S("/events"), AUTH_OWNER, RATE_READ, "events", NULL, "from:n kinds follow:b", 0, HOUR, &view_events,
         events_begin, ROUTE_TICKET, 0},
        {"GET", "/api/events", AUTH_OWNER, RATE_READ, "events", NULL, "from:n kinds follow:b", 0, HOUR, &view_events,
         events_begin, ROUTE_TICKET, 0},
        {"GET", "/api/events/search", AUTH_OWNER, RATE_READ, "events", NULL,
         "sandbox kinds text since_ms:n until_ms:n before:n limit:n all:b", 0, SOON, NULL, events_search_begin, 0, 0},
        {"GET", "/api/local", AUTH_SESSION, RATE_SANDBOX, "", NULL, NULL, 0, HOUR, &view_tunnel, tunnel_begin,
         ROUTE_TICKET | ROUTE_UPGRADE, 101},
        {"GET", "/api/ledger/checkpoint", AUTH_OWNER, RATE_READ, "checkpoint", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"GET", S("/evidence"), AUTH_OWNER, RATE_WRITE, "evidence", NULL, NULL, 0, HOUR, &view_bytes, NULL,
         ROUTE_TICKET, 0},
        {"GET", S("/evidence/{run}"), AUTH_OWNER, RATE_WRITE, "evidence", NULL, NULL, 0, HOUR, &view_bytes, NULL,
         ROUTE_TICKET, 0},

        {"GET", "/api/provisions", AUTH_OWNER, RATE_READ, "list", NULL, "limit:n cursor", 0, SOON, &view_provisions,
         list_begin, 0, 0},
        {"GET", "/api/provisions/{call}", AUTH_OWNER, RATE_READ, "list", NULL, NULL, 0, SOON, &view_provision,
         provision_begin, 0, 0},
        {"GET", "/api/operator/health", AUTH_SESSION, RATE_READ, "health", NULL, NULL, 0, SOON, NULL,
         operator_health_begin, 0, 0},
        {"GET", "/api/operator/load", AUTH_SESSION, RATE_READ, "load", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"GET", "/api/operator/pool", AUTH_SESSION, RATE_READ, "pool", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"GET", "/api/operator/gate", AUTH_SESSION, RATE_READ, "gate-names", NULL, "since_ms:n limit:n", 0, SOON, NULL,
         NULL, 0, 0},
        {"GET", "/api/operator/doctor", AUTH_SESSION, RATE_READ, "doctor", NULL, NULL, 0, LONG, NULL, NULL, 0, 0},
        {"GET", "/api/operator/verify", AUTH_SESSION, RATE_READ, "verify", NULL, NULL, 0, LONG, NULL, NULL, 0, 0},
        {"GET", "/api/operator/verify/report", AUTH_SESSION, RATE_READ, "verify-page", NULL, NULL, 0, LONG,
         &view_report_page, NULL, ROUTE_TICKET, 0},
        {"GET", "/api/operator/owners", AUTH_SESSION, RATE_READ, "owners", NULL, NULL, 0, SOON, NULL, NULL, 0, 0},
        {"GET", "/api/operator/sandboxes", AUTH_SESSION, RATE_READ, "list", NULL, "state limit:n cursor", 0, SOON, NULL,
         list_all_begin, 0, 0},

        /* in instance mode such a path has become another before it comes here */
        {"ANY", "/api/sandbox/{rest}", AUTH_NONE, RATE_READ, "", NULL, NULL, ALL, SOON, NULL, instance_refuse,
         ROUTE_INPUT, 0},
};

const struct route *route_at(size_t i) {
        return i < ELEMENTSOF(routes) ? &routes[i] : NULL;
}

size_t route_index(const struct route *r) {
        return (size_t)(r - routes);
}

unsigned route_status(const struct route *r) {
        return r->status > 0 ? r->status : 200;
}
