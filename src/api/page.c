/* Pages. With the web app in this binary it is what people get: one small document whose nonce is new in each answer,
 * and files that never change under the same name. Without it there is a page of our own that a one-time link opens:
 * the link's code stands behind the '#', which browsers do not send and do not log; the page exchanges it for a session
 * and shows how to use that. Nothing foreign is in any of it, and its policy lets nothing but itself run. */
#include "api/page.h"

#include <stdio.h>
#include <sys/random.h>

#include "api/web-asset.h"

#define NONCE 33

static const char before[] =
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>Stockade</title><style nonce=%s>body{font:16px system-ui;max-width:44rem;margin:3rem auto;padding:0 "
        "1rem}"
        "pre{background:#eee;padding:1rem;white-space:pre-wrap;word-break:break-all}</style>"
        "<h1>Stockade</h1><p id=said>This is the API of an operator. <a href=/api/openapi.json>What can be "
        "asked</a></p>"
        "<pre id=shown hidden></pre><script nonce=%s>";

static const char script[] =
        "const said=document.getElementById('said'),shown=document.getElementById('shown');"
        "const link=location.hash.startsWith('#link=')?location.hash.slice(6):'';"
        "history.replaceState(null,'',location.pathname);"
        "if(link)fetch('/api/auth/session',{method:'POST',headers:{'Content-Type':'application/json'},"
        "body:JSON.stringify({link})}).then(r=>r.json()).then(a=>{"
        "said.textContent=a.token?'You are signed in as '+a.owner+' until '+a.expires+'. This is your token; it is "
        "shown "
        "once:':a.error+' '+(a.hint||'');"
        "if(a.token){shown.hidden=false;shown.textContent='export TOKEN='+a.token+'\\ncurl -H \"Authorization: Bearer "
        "$TOKEN\" '+location.origin+'/api/sandboxes';}});";

bool page_has_app(void) {
        return web_asset_find(WEB_INDEX) != NULL;
}

static void replace_header(struct exchange *x, const char *name, const char *value) {
        const char *old = x->response ? MHD_get_response_header(x->response, name) : NULL;

        if (old)
                (void)MHD_del_response_header(x->response, name, old);
        reply_header(x, name, value);
}

/* Who may show it in a frame is configured for every answer alike. */
static void set_policy(struct exchange *x, const char *sources) {
        const struct conf_list *frames = &x->api->o->conf.frames;
        _cleanup_buf_ struct buf b = {0};

        buf_printf(&b,
                   "default-src 'none'; %s; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                   "frame-ancestors",
                   sources);
        for (size_t i = 0; i < frames->count; i++)
                buf_printf(&b, " %s", frames->items[i]);
        if (frames->count == 0)
                buf_str(&b, " 'none'");
        if (buf_ok(&b))
                replace_header(x, "Content-Security-Policy", b.data);
}

static void small_page(struct exchange *x, const char *nonce) {
        struct buf b = {0};
        char sources[128];

        buf_printf(&b, before, nonce, nonce);
        buf_str(&b, script);
        buf_str(&b, "</script></html>\n");
        reply_text(x, 200, "text/html; charset=utf-8", &b);
        (void)snprintf(sources, sizeof sources, "script-src 'nonce-%s'; style-src 'nonce-%s'", nonce, nonce);
        set_policy(x, sources);
}

static void app(struct exchange *x, const struct web_asset *index, const char *nonce) {
        const char *at = (const char *)web_bytes + index->at, *end = at + index->size, *mark;
        struct buf b = {0};
        char sources[256];

        while ((mark = memmem(at, (size_t)(end - at), WEB_NONCE, strlen(WEB_NONCE)))) {
                buf_add(&b, at, (size_t)(mark - at));
                buf_str(&b, nonce);
                at = mark + strlen(WEB_NONCE);
        }
        buf_add(&b, at, (size_t)(end - at));
        reply_text(x, 200, index->type, &b);
        /* not 'self': what a sandbox serves behind a port has the same origin */
        (void)snprintf(sources, sizeof sources,
                       "script-src 'nonce-%s' 'strict-dynamic'; style-src 'nonce-%s'; img-src 'self' data: blob:; "
                       "require-trusted-types-for 'script'; trusted-types 'none'",
                       nonce, nonce);
        set_policy(x, sources);
}

void page_answer(struct exchange *x) {
        const struct web_asset *index = web_asset_find(WEB_INDEX);
        uint8_t chance[(NONCE - 1) / 2];
        char nonce[NONCE];

        if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance) {
                reply_error(x, "failed", "try again", "the kernel gives no random bytes");
                return;
        }
        for (size_t i = 0; i < sizeof chance; i++)
                (void)snprintf(nonce + 2 * i, 3, "%02x", chance[i]);
        if (index)
                app(x, index, nonce);
        else
                small_page(x, nonce);
}

void page_asset_answer(struct exchange *x) {
        const struct web_asset *a = web_asset_find(x->url);
        char tag[64];

        if (!a) {
                reply_error(x, "no_route", page_has_app() ? "load the page again: it may have been replaced" : NULL,
                            "there is no such file");
                return;
        }
        const char *accept = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Accept-Encoding");
        const char *known = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "If-None-Match");
        bool packed = a->packed > 0 && web_takes_gzip(accept);
        (void)snprintf(tag, sizeof tag, "%s%s", a->tag, packed ? "-gzip" : "");
        if (web_has_tag(known, tag))
                reply_empty(x, 304);
        else
                reply_static(x, 200, a->type, web_bytes + (packed ? a->packed_at : a->at),
                             packed ? a->packed : a->size);
        if (packed && x->status == 200)
                reply_header(x, "Content-Encoding", "gzip");
        (void)snprintf(tag, sizeof tag, "\"%s%s\"", a->tag, packed ? "-gzip" : "");
        reply_header(x, "ETag", tag);
        reply_header(x, "Vary", "Accept-Encoding");
        replace_header(x, "Cache-Control", "public, max-age=31536000, immutable");
}
