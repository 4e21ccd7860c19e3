/* session.c - where a forge is, the token, and reviews found, opened and updated there. */
#include "concord/forge/forge.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- where ------------------------------------------------------------------------------------------- */

/* "api.gitcode.com" of https://api.gitcode.com/api/v5. Owned. */
static char *host_of(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return xstrndup(host, strcspn(host, "/"));
}

static bool is_local(const char *url)
{
    char *host = host_of(url);
    size_t n = strcspn(host, ":");
    bool local = (n == 9 && !strncmp(host, "localhost", n)) || (n == 9 && !strncmp(host, "127.0.0.1", n));
    free(host);
    return local;
}

int forge_open(struct forge_session *s, enum forge_id id, const char *api, struct err *e)
{
    *s = (struct forge_session){.forge = &forges[id], .api = xstrdup(api ? api : forges[id].api)};
    for (size_t n = strlen(s->api); n && s->api[n - 1] == '/'; n--) s->api[n - 1] = '\0';
    if (str_starts(s->api, "https://") || is_local(s->api)) return 0;
    err_set(e, "%s: the token goes over https only: correct review.api", s->api);
    forge_close(s);
    return -1;
}

void forge_close(struct forge_session *s)
{
    if (s->token) explicit_bzero(s->token, strlen(s->token));
    free(s->token);
    free(s->api);
    *s = (struct forge_session){0};
}

/* ---- the token --------------------------------------------------------------------------------------- */

static bool usable(const char *token)
{
    if (!token || !*token) return false;
    for (const char *p = token; *p; p++)
        if (!isgraph((unsigned char)*p)) return false; /* a line end would end the header */
    return true;
}

/* password=... of `git credential fill`. Owned, NULL when there is none. */
static char *password_of(const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (!strncmp(p, "password=", 9)) return xstrndup(p + 9, n - 9);
        p += n + (p[n] == '\n');
    }
    return NULL;
}

static char *from_helper(const char *host)
{
    static const char *const argv[] = {"git", "credential", "fill", NULL};
    static const char *const env[] = {"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", NULL};
    char *question = xformat("protocol=https\nhost=%s\n\n", host);
    const struct proc_spec spec = {
        .argv = argv, .env = env, .input = question, .input_len = strlen(question), .timeout_ms = 30000};
    struct proc_result r;
    char *token = NULL;
    if (!proc_run(&spec, &r, NULL)) {
        if (!r.status) token = password_of(buf_str(&r.out));
        if (r.out.ptr) explicit_bzero(r.out.ptr, r.out.len);
        proc_result_free(&r);
    }
    free(question);
    return token;
}

int forge_token(struct forge_session *s, struct err *e)
{
    const char *given = getenv(s->forge->variable);
    s->token = given ? xstrdup(given) : from_helper(s->forge->host);
    if (usable(s->token)) return 0;
    bool any = s->token != NULL;
    return any ? err_set(e, "the token in %s is empty or has characters that no token has",
                         s->forge->variable)
               : err_set(e, "no token for %s: set %s, or store it with a git credential helper for host %s",
                         s->forge->name, s->forge->variable, s->forge->host);
}

/* ---- URLs -------------------------------------------------------------------------------------------- */

static void put_encoded(struct buf *b, const char *text, bool keep_slash)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (isalnum(c) || strchr("-_.~", c) || (c == '/' && keep_slash))
            buf_addc(b, c);
        else
            buf_addf(b, "%%%02X", c);
    }
}

static void put_value(struct buf *b, const char *name, size_t n, const struct review *r, int64_t number)
{
    char *owner = xstrndup(r->fork, strcspn(r->fork, "/")), digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    const struct {
        const char *name, *value;
        bool keep_slash;
    } values[] = {{"repo", r->repository, true}, {"repo%", r->repository, false},
                  {"fork", r->fork, true},       {"fork%", r->fork, false},
                  {"owner", owner, false},       {"branch", r->branch, false},
                  {"base", r->base, false},      {"number", digits, false}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strlen(values[i].name) == n && !strncmp(values[i].name, name, n))
            put_encoded(b, values[i].value, values[i].keep_slash);
    free(owner);
}

char *forge_url(const struct forge_session *s, const char *path, const struct review *r, int64_t number)
{
    struct buf b = BUF_INIT;
    buf_adds(&b, s->api);
    for (const char *p = path; *p;) {
        size_t n = *p == '{' ? strcspn(p, "}") : 0;
        if (n)
            put_value(&b, p + 1, n - 1, r, number);
        else
            buf_addc(&b, *p);
        p += n + 1;
    }
    return buf_take(&b);
}

/* ---- reviews ----------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* GitCode writes some numbers as text. */
static int64_t number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : json_integer_value(value);
}

static void keep(const struct forge_session *s, const json_t *item, struct review_found *out)
{
    review_found_free(out);
    out->number = number_of(item, s->forge->number);
    out->url = xstrdup(text_of(item, s->forge->url));
    out->body = xformat("%s\n%s", text_of(item, "title"), text_of(item, s->forge->text));
}

enum { PAGES = 20, PER_PAGE = 100 };

int forge_find(struct forge_session *s, const struct review *r, struct review_found *out, struct err *e)
{
    char *url = forge_url(s, s->forge->list, r, 0);
    int result = 0;
    bool last = false;
    for (int page = 1; !result && !last && !out->number && page <= PAGES; page++) {
        char *here = xformat("%s&page=%d", url, page);
        json_t *answer, *item;
        long status;
        size_t i;
        result = forge_request(s, "GET", here, NULL, false, &status, &answer, e);
        last = json_array_size(answer) < PER_PAGE;
        json_array_foreach(answer, i, item) if (!out->number && s->forge->is_ours(item, r))
            keep(s, item, out);
        json_decref(answer);
        free(here);
    }
    free(url);
    return result;
}

int forge_target(struct forge_session *s, const struct review *r, int64_t *id, struct err *e)
{
    json_t *answer;
    long status;
    *id = 0;
    if (!s->forge->target) return 0;
    char *url = forge_url(s, s->forge->target, r, 0);
    int result = forge_request(s, "GET", url, NULL, false, &status, &answer, e);
    if (!result && !(*id = json_integer_value(json_object_get(answer, "id"))))
        result = err_set(e, "GET %s: the answer has no id", url);
    json_decref(answer);
    free(url);
    return result;
}

json_t *forge_change_payload(const struct forge *f, const struct review *r)
{
    return json_pack("{s:s, s:s}", "title", r->title, f->text, r->body);
}

static int change(struct forge_session *s, const struct review *r, struct review_found *out, struct err *e)
{
    char *url = forge_url(s, s->forge->change, r, out->number);
    json_t *body = forge_change_payload(s->forge, r), *answer;
    long status;
    int result = forge_request(s, s->forge->verb, url, body, false, &status, &answer, e);
    json_decref(answer);
    json_decref(body);
    free(url);
    return result;
}

/* Sent once: whether a lost answer's request was carried out is asked, not guessed. */
static int make(struct forge_session *s, const struct review *r, struct review_found *out, struct err *e)
{
    int64_t target;
    json_t *answer = NULL;
    long status;
    if (forge_target(s, r, &target, e)) return -1;
    char *url = forge_url(s, s->forge->make, r, 0);
    json_t *body = s->forge->payload(r, target);
    struct err first;
    int result = forge_request(s, "POST", url, body, true, &status, &answer, &first);
    if (!result) {
        keep(s, answer, out);
        if (!out->number) result = err_set(&first, "POST %s: the answer has no %s", url, s->forge->number);
    } else if (!status || status >= 500) {
        struct err lost;
        bool there = !forge_find(s, r, out, &lost) && out->number;
        if (there) result = 0;
    }
    if (result && e) *e = first;
    json_decref(answer);
    json_decref(body);
    free(url);
    return result;
}

int forge_put(struct forge_session *s, const struct review *r, struct review_found *out, const char **what,
              struct err *e)
{
    *out = (struct review_found){0};
    if (forge_find(s, r, out, e)) return -1;
    if (!out->number) {
        *what = "opened";
        return make(s, r, out, e);
    }
    char *wanted = xformat("%s\n%s", r->title, r->body);
    bool same = !strcmp(wanted, out->body);
    free(wanted);
    *what = same ? "unchanged" : "updated";
    return same ? 0 : change(s, r, out, e);
}
