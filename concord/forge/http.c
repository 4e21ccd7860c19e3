/* http.c - requests to a forge: the token in a header, no redirects, retries only where they are safe. */
#include "concord/forge/forge.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 5, LONGEST_WAIT = 300, TIMEOUT_S = 60 };
static const size_t largest_answer = (size_t)32 << 20;

struct exchange {
    struct buf body;
    long status;
    long retry_after; /* seconds, -1: not said */
    bool exhausted;   /* the rate limit has nothing left */
    long reset;       /* when it has again: seconds since 1970, 0: not said */
    char why[CURL_ERROR_SIZE];
};

static size_t take_body(char *data, size_t size, size_t n, void *to)
{
    struct exchange *x = to;
    if (x->body.len + size * n > largest_answer) return 0;
    buf_add(&x->body, data, size * n);
    return size * n;
}

static bool header_is(const char *line, size_t n, const char *name, long *value)
{
    size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length) != 0 || line[length] != ':') return false;
    char *text = xstrndup(line + length + 1, n - length - 1), *end;
    *value = strtol(text, &end, 10);
    bool number = end != text;
    free(text);
    return number;
}

static size_t take_header(char *line, size_t size, size_t n, void *to)
{
    struct exchange *x = to;
    long left = 1;
    header_is(line, size * n, "retry-after", &x->retry_after);
    header_is(line, size * n, "x-ratelimit-reset", &x->reset);
    if (header_is(line, size * n, "x-ratelimit-remaining", &left)) x->exhausted = left <= 0;
    return size * n;
}

/* ---- one exchange ------------------------------------------------------------------------------------ */

static struct curl_slist *headers_of(const struct forge_session *s, bool body)
{
    struct curl_slist *list = NULL;
    if (s->token) {
        char *line = xformat("%s%s", s->forge->header, s->token);
        list = curl_slist_append(list, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    list = curl_slist_append(list, "Accept: application/json");
    if (body) list = curl_slist_append(list, "Content-Type: application/json");
    return list;
}

static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *l = list; l; l = l->next) explicit_bzero(l->data, strlen(l->data));
    curl_slist_free_all(list);
}

static CURLcode exchange_once(const struct forge_session *s, const char *method, const char *url,
                              const char *body, struct exchange *x)
{
    CURL *c = curl_easy_init();
    struct curl_slist *headers = headers_of(s, body != NULL);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "concord/" CONCORD_VERSION);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L); /* the token is for this host alone */
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 20L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->why);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    if (body) curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
    CURLcode rc = curl_easy_perform(c);
    if (rc == CURLE_OK) curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &x->status);
    if (rc != CURLE_OK && !*x->why) snprintf(x->why, sizeof x->why, "%s", curl_easy_strerror(rc));
    free_headers(headers);
    curl_easy_cleanup(c);
    return rc;
}

/* ---- again? ------------------------------------------------------------------------------------------ */

static bool limited(const struct exchange *x)
{
    return x->status == 429 || (x->status == 403 && (x->exhausted || x->retry_after >= 0));
}

/* Seconds to wait before the next attempt. */
static long pause_of(const struct exchange *x, int attempt)
{
    long seconds = 1L << attempt;
    if (x->retry_after >= 0)
        seconds = x->retry_after;
    else if (limited(x) && x->reset > 0)
        seconds = x->reset - (long)time(NULL);
    return seconds < 0 ? 0 : seconds > LONGEST_WAIT ? LONGEST_WAIT : seconds;
}

/* A refused request (429, 403) was not carried out, so it may always be repeated. */
static bool repeat(CURLcode rc, const struct exchange *x, bool once)
{
    if (rc == CURLE_OK && limited(x)) return true;
    return !once && (rc != CURLE_OK || x->status >= 500);
}

static void wait_seconds(const struct exchange *x, long seconds)
{
    if (seconds > 2)
        fprintf(stderr, "concord: the forge asks to wait (HTTP %ld): going on in %ld s\n", x->status,
                seconds);
    for (long i = 0; i < seconds * 10 && !proc_interrupted; i++) usleep(100000);
}

/* What the server said, on one line, without our token should it repeat it. */
static void server_words(const struct forge_session *s, const json_t *answer, const struct exchange *x,
                         char *out, size_t n)
{
    const char *text = json_string_value(json_object_get(answer, "message"));
    if (!text) text = json_string_value(json_object_get(answer, "error_message"));
    if (!text) text = json_string_value(json_object_get(answer, "error"));
    snprintf(out, n, "%s", text ? text : buf_str(&x->body));
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20) *p = ' ';
    for (char *at; s->token && *s->token && (at = strstr(out, s->token));) memset(at, '*', strlen(s->token));
}

static int refused(const struct forge_session *s, const char *method, const char *url, const json_t *answer,
                   const struct exchange *x, struct err *e)
{
    char words[300];
    server_words(s, answer, x, words, sizeof words);
    const char *mend = x->status == 401   ? ": check the token"
                       : x->status == 404 ? ": check repository and rights"
                                          : "";
    return err_set(e, "%s %s: HTTP %ld%s: %s", method, url, x->status, mend, words);
}

int forge_request(struct forge_session *s, const char *method, const char *url, const json_t *body, bool once,
                  long *status, json_t **answer, struct err *e)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct exchange x;
    CURLcode rc = CURLE_OK;
    *answer = NULL;
    for (int attempt = 0;; attempt++) {
        x = (struct exchange){.retry_after = -1};
        rc = exchange_once(s, method, url, text, &x);
        if (attempt + 1 >= ATTEMPTS || proc_interrupted || !repeat(rc, &x, once)) break;
        wait_seconds(&x, pause_of(&x, attempt));
        buf_free(&x.body);
    }
    *status = x.status;
    if (rc == CURLE_OK) *answer = json_loadb(buf_str(&x.body), x.body.len, 0, NULL);
    int result = rc != CURLE_OK        ? err_set(e, "%s %s: %s", method, url, x.why)
                 : x.status / 100 == 2 ? 0
                                       : refused(s, method, url, *answer, &x, e);
    buf_free(&x.body);
    free(text);
    return result;
}
