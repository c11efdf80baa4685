/* Reading URLs of servers, by the same strict rules as everything that names a host here (base/http.h). */
#include "remote/url.h"

#include <strings.h>

#include "base/http.h"

#define LINK "/#link="

static int wrong(const char *text, struct err *err) {
        (void)err_set(err, ERR_INPUT, "'%.100s' is not a server", text);
        return err_hint(err, "https://HOST[:PORT], or http://127.0.0.1:PORT; no user, no path");
}

static int parse(const char *text, size_t size, struct url *ret, struct err *err) {
        bool tls = size > 8 && strncasecmp(text, "https://", 8) == 0;
        struct http_target at = {0};
        struct url u = {.tls = tls};

        if (!tls && (size <= 7 || strncasecmp(text, "http://", 7) != 0))
                return wrong(text, err);
        const char *authority = text + (tls ? 8 : 7);
        size -= (size_t)(authority - text);
        if (size > 260 || !http_authority(authority, size, &at) || !at.present)
                return wrong(text, err);
        unsigned usual = tls ? 443 : 80, port = at.port > 0 ? at.port : usual;
        (void)snprintf(u.port, sizeof u.port, "%u", port);
        u.is_address = at.name[0] == '\0';
        const char *end = authority[0] == '[' ? memchr(authority, ']', size) : memchr(authority, ':', size);
        size_t begin = authority[0] == '[', length = end ? (size_t)(end - authority) : size;
        if (length <= begin || length - begin >= sizeof u.host)
                return wrong(text, err);
        for (size_t i = begin; i < length; i++)
                u.host[i - begin] = (char)(authority[i] >= 'A' && authority[i] <= 'Z' ? authority[i] + 32
                                                                                      : authority[i]);
        (void)snprintf(u.text, sizeof u.text, "http%s://%s%s%s", tls ? "s" : "", begin ? "[" : "", u.host,
                       begin ? "]" : "");
        if (port != usual)
                (void)snprintf(u.text + strlen(u.text), sizeof u.text - strlen(u.text), ":%s", u.port);
        *ret = u;
        ret->domain = ret->text + (tls ? 8 : 7);
        return 0;
}

int url_parse(const char *text, struct url *ret, struct err *err) {
        size_t size = strlen(text);

        if (size > 0 && text[size - 1] == '/')
                size--;
        return parse(text, size, ret, err);
}

int url_parse_link(const char *text, struct url *ret, const char **ret_link, struct err *err) {
        const char *at = strstr(text, LINK);

        if (!at || !at[strlen(LINK)] || strlen(at) > 256) {
                (void)err_set(err, ERR_INPUT, "this is not a link that signs anybody in");
                return err_hint(err, "'stockade sign-in' prints one, on the host of the daemon");
        }
        struct err unsaid;
        int r = parse(text, (size_t)(at - text), ret, &unsaid);
        if (r < 0) /* the whole of it is a secret: it is not repeated */
                return err_set(err, r, "the link does not begin with the URL of a server");
        *ret_link = at + strlen(LINK);
        return 0;
}

void url_file(const struct url *u, char *ret, size_t size) {
        (void)snprintf(ret, size, "%s-%s%s%s-%s.json", u->tls ? "https" : "http", strchr(u->host, ':') ? "[" : "",
                       u->host, strchr(u->host, ':') ? "]" : "", u->port);
        for (char *p = ret; *p; p++)
                if (*p == ':')
                        *p = '_';
}
