/* A refusal as an HTTP answer with a JSON body, so that a program, or whoever reads its output, knows that it was the
 * gate that said no, why, and what to do about it.
 *
 * Of the request it repeats the method and the path without query. No header's value is in it, and of an event's own
 * clause only those that we wrote ourselves. */
#include "gate/exchange-refuse.h"

#include "base/json.h"

static const struct {
        unsigned status;
        const char *words;
} statuses[] = {
        {400, "Bad Request"}, {403, "Forbidden"},           {429, "Too Many Requests"}, {431, "Head Too Large"},
        {502, "Bad Gateway"}, {503, "Service Unavailable"}, {504, "Gateway Timeout"},
};

static unsigned status_of(enum gate_reason reason) {
        switch (reason) {
        case GATE_BAD_NAME:
        case GATE_BAD_PROTOCOL:
                return 400;
        case GATE_UNRESOLVED:
        case GATE_UNREACHABLE:
        case GATE_CERTIFICATE:
                return 502;
        case GATE_CONNECTIONS:
                return 503;
        case GATE_LOOKUPS:
                return 429;
        case GATE_TIMEOUT:
                return 504;
        case GATE_USED:
        case GATE_NO_RULE:
        case GATE_NO_PORT:
        case GATE_QUERY_TYPE:
        case GATE_PRIVATE:
        case GATE_WRONG_SERVER:
        case GATE_WRONG_HOST:
        case GATE_NO_METHOD:
        case GATE_NO_PATH:
        case GATE_NO_UDP:
        case GATE_EGRESS:
        case GATE_REVOKED:
        case GATE_REASON_COUNT:
        default:
                return 403;
        }
}

static void body(const struct gate_event *e, const char *hint, struct buf *out) {
        struct json j = {.out = out};
        char own[512];

        if (!hint) {
                gate_hint(e, own, sizeof own);
                hint = own[0] || e->reason != GATE_NO_PATH ? own : "only a rule without 'paths' allows such a path";
        }
        json_open(&j, NULL, '{');
        json_str(&j, "error", "refused");
        json_str(&j, "layer", "gate");
        if (e->rule >= 0)
                json_i64(&j, "rule", e->rule);
        else
                json_null(&j, "rule");
        json_str(&j, "reason", gate_reason_name(e->reason));
        json_str(&j, "message", gate_reason_text(e->reason));
        if (e->reason == GATE_BAD_PROTOCOL && e->detail[0])
                json_str(&j, "detail", e->detail);
        json_str(&j, "host", e->host);
        json_u64(&j, "port", e->port);
        json_str(&j, "method", e->method[0] ? e->method : NULL);
        json_str(&j, "path", e->path[0] ? e->path : NULL);
        json_str(&j, "hint", hint);
        json_close(&j, '}');
        buf_str(out, "\n");
}

size_t exchange_refuse(const struct gate_event *e, unsigned status, const char *hint, char *ret, size_t room) {
        _cleanup_buf_ struct buf text = {0};
        const char *words = "Refused";

        for (size_t i = 0; i < ELEMENTSOF(statuses); i++)
                if (statuses[i].status == status)
                        words = statuses[i].words;
        body(e, hint, &text);
        if (!buf_ok(&text))
                return 0;
        int n = snprintf(ret, room,
                         "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                         "Cache-Control: no-store\r\nConnection: close\r\n\r\n%s",
                         status, words, text.size, str_eq(e->method, "HEAD") ? "" : text.data);
        return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

size_t exchange_refusal(const struct gate_event *e, char *ret, size_t room) {
        return exchange_refuse(e, status_of(e->reason), NULL, ret, room);
}
