/* verdict.c - from the facts of a case's run to its verdict. */
#include "concord/run/verdict.h"
#include "concord/base/base.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *meaning;
} verdicts[] = {
#define X(id, text, meaning) [VERDICT_##id] = {text, meaning},
    VERDICTS(X)
#undef X
};
_Static_assert(sizeof verdicts / sizeof *verdicts == VERDICT_COUNT, "one row a verdict");

const char *verdict_name(enum verdict v)
{
    return verdicts[v].name;
}

const char *verdict_meaning(enum verdict v)
{
    return verdicts[v].meaning;
}

enum verdict verdict_parse(const char *text)
{
    for (int v = 0; v < VERDICT_COUNT; v++)
        if (!strcmp(verdicts[v].name, text)) return (enum verdict)v;
    return VERDICT_ERROR;
}

/* ---- the facts --------------------------------------------------------------------------------------------
 */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* The strings of an array, at most three of them, as one text. */
static char *joined(const json_t *array)
{
    enum { SHOWN = 3 };
    struct buf b = BUF_INIT;
    size_t n = json_array_size(array);
    for (size_t i = 0; i < n && i < SHOWN; i++)
        buf_addf(&b, "%s%s", i ? "; " : "", json_string_value(json_array_get(array, i)));
    if (n > SHOWN) buf_addf(&b, "; and %zu more", n - SHOWN);
    return buf_take(&b);
}

static struct judgement say(enum verdict v, char *owned_reason)
{
    return (struct judgement){v, owned_reason};
}

static struct judgement say_list(enum verdict v, const char *before, const json_t *array)
{
    char *list = joined(array);
    char *reason = xformat("%s%s", before, list);
    free(list);
    return say(v, reason);
}

/* faulthandler's "  File "x.py", line 12 in name" nearest to the fault, outside of the harness where there is
 * one. */
static char *innermost_frame(const char *stack)
{
    const char *current = strstr(stack, "Current thread");
    const char *p = strstr(current ? current : stack, "File \"");
    if (!p) return xstrdup("");
    return xformat(" at %.*s", (int)strcspn(p, "\n"), p);
}

static const char *signal_name(int sig, char buf[16])
{
    const char *abbreviation = sigabbrev_np(sig);
    if (abbreviation)
        snprintf(buf, 16, "SIG%s", abbreviation);
    else
        snprintf(buf, 16, "signal %d", sig);
    return buf;
}

/* ---- the rules, tried in order: the first that applies decides --------------------------------------- */

struct facts {
    const json_t *done, *result, *proof;
    enum device_kind kind;
};

/* Each returns true and fills *j when it applies. */
typedef bool rule(const struct facts *f, struct judgement *j);

static bool timed_out(const struct facts *f, struct judgement *j)
{
    if (!json_is_true(json_object_get(f->done, "timed_out"))) return false;
    char *frame = innermost_frame(text_of(f->done, "stack"));
    *j = say(VERDICT_TIMEOUT, xformat("no end after %.1f s, in phase '%s'%s",
                                      json_number_value(json_object_get(f->done, "ms")) / 1000.0,
                                      text_of(f->done, "phase"), frame));
    free(frame);
    return true;
}

/* The device's message in a text, "EZ9999: ..." at the start of a line: its length in *n, "" when there is
 * none. */
static const char *device_message(const char *text, size_t *n)
{
    for (const char *p = text; p; p = (p = strchr(p, '\n')) ? p + 1 : NULL) {
        if (p[0] != 'E' || !isupper((unsigned char)p[1]) || strspn(p + 2, "0123456789") != 4 || p[6] != ':')
            continue;
        *n = strcspn(p, "\n");
        return p;
    }
    *n = 0;
    return "";
}

static bool crashed(const struct facts *f, struct judgement *j)
{
    char name[16];
    int sig = (int)number_of(f->done, "signal");
    if (!sig) return false;
    char *frame = innermost_frame(text_of(f->done, "stack"));
    size_t n;
    const char *message = device_message(text_of(f->done, "output"), &n);
    *j = say(VERDICT_CRASHED, xformat("%s in phase '%s'%s%s%.*s", signal_name(sig, name),
                                      text_of(f->done, "phase"), frame, n ? ": " : "", (int)n, message));
    free(frame);
    return true;
}

static bool no_result(const struct facts *f, struct judgement *j)
{
    json_int_t status = number_of(f->done, "exit");
    if (json_is_object(f->result) && !status) return false;
    const char *out = text_of(f->done, "output");
    size_t n = strlen(out);
    while (n && out[n - 1] == '\n') n--;
    size_t line = n;
    while (line && out[line - 1] != '\n') line--;
    *j = say(VERDICT_ERROR,
             xformat("exit status %d in phase '%s'%s%.*s", (int)status, text_of(f->done, "phase"),
                     n ? ": " : "", (int)(n - line > 300 ? 300 : n - line), out + line));
    return true;
}

static bool skipped(const struct facts *f, struct judgement *j)
{
    const json_t *skip = json_object_get(f->result, "skip");
    if (!json_is_string(skip)) return false;
    *j = say(VERDICT_SKIPPED, xstrdup(json_string_value(skip)));
    return true;
}

static bool raised(const struct facts *f, const char *where, const char *who, struct judgement *j)
{
    const json_t *exception = json_object_get(json_object_get(f->result, where), "exception");
    if (!exception) return false;
    const char *message = text_of(exception, "cause");
    if (!*message) message = text_of(exception, "raw");
    *j = say(VERDICT_ERROR, xformat("%s raised %s: %.*s", who, text_of(exception, "type"),
                                    (int)strcspn(message, "\n"), message));
    return true;
}

static bool raised_on_cpu(const struct facts *f, struct judgement *j)
{
    return raised(f, "cpu", "the CPU twin", j);
}

static bool raised_on_device(const struct facts *f, struct judgement *j)
{
    return raised(f, "device", "the device", j);
}

static bool broken_on_cpu(const struct facts *f, struct judgement *j)
{
    const json_t *claims = json_object_get(json_object_get(f->result, "cpu"), "claims");
    if (!json_array_size(claims)) return false;
    *j = say_list(VERDICT_ERROR, "does not hold on the CPU either: ", claims);
    return true;
}

static bool differs(const struct facts *f, struct judgement *j)
{
    const json_t *differences = json_object_get(f->result, "differences");
    if (!json_array_size(differences)) return false;
    *j = say_list(VERDICT_FAILED, "", differences);
    return true;
}

static bool broken_on_device(const struct facts *f, struct judgement *j)
{
    const json_t *claims = json_object_get(json_object_get(f->result, "device"), "claims");
    if (!json_array_size(claims)) return false;
    *j = say_list(VERDICT_FAILED, "does not hold: ", claims);
    return true;
}

static bool nothing_compared(const struct facts *f, struct judgement *j)
{
    if (number_of(f->result, "compared") > 0) return false;
    *j = say(VERDICT_ERROR, xstrdup("the case compared nothing"));
    return true;
}

static bool no_device(const struct facts *f, struct judgement *j)
{
    if (f->kind != KIND_NONE) return false;
    *j = say(VERDICT_NO_PROOF, xstrdup("the worker has neither softnpu nor a board"));
    return true;
}

static bool fell_back(const struct facts *f, struct judgement *j)
{
    const json_t *fallbacks = json_object_get(f->proof, "fallbacks");
    if (!json_array_size(fallbacks)) return false;
    *j = say_list(VERDICT_NO_PROOF, "fell back to the CPU: ", fallbacks);
    return true;
}

static bool off_device(const struct facts *f, struct judgement *j)
{
    json_int_t tensors = number_of(f->proof, "on_device") + number_of(f->proof, "made");
    if (!tensors) {
        *j = say(VERDICT_NO_PROOF, xstrdup("no tensor of the case was on the device"));
        return true;
    }
    const json_t *elsewhere = json_object_get(f->proof, "elsewhere");
    if (!json_array_size(elsewhere)) return false;
    *j = say_list(VERDICT_FAILED, "", elsewhere);
    return true;
}

static bool no_memory(const struct facts *f, struct judgement *j)
{
    if (number_of(f->proof, "memory_peak") > 0) return false;
    *j = say(VERDICT_NO_PROOF, xstrdup("no device memory was in use"));
    return true;
}

/* A board counts nothing for us: there, result devices and memory are the proof. */
static bool no_launch(const struct facts *f, struct judgement *j)
{
    if (f->kind == KIND_HARDWARE || number_of(f->proof, "launches") > 0) return false;
    *j = say(VERDICT_NO_PROOF, xstrdup("no operator was launched on the device"));
    return true;
}

static rule *const rules[] = {timed_out,        crashed,       no_result,  skipped,          raised_on_cpu,
                              raised_on_device, broken_on_cpu, differs,    broken_on_device, nothing_compared,
                              no_device,        fell_back,     off_device, no_memory,        no_launch};

struct judgement verdict_judge(const json_t *done, enum device_kind kind)
{
    const json_t *result = json_object_get(done, "result");
    struct facts f = {done, result, json_object_get(result, "proof"), kind};
    struct judgement j;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i](&f, &j)) return j;
    return say(VERDICT_PASSED, xstrdup(""));
}

enum verdict verdict_of_cell(const int counts[VERDICT_COUNT])
{
    for (int v = VERDICT_COUNT - 1; v > VERDICT_SKIPPED; v--)
        if (counts[v]) return (enum verdict)v;
    if (counts[VERDICT_PASSED]) return VERDICT_PASSED;
    if (counts[VERDICT_XFAIL]) return VERDICT_XFAIL;
    return counts[VERDICT_SKIPPED] ? VERDICT_SKIPPED : VERDICT_NOT_RUN;
}
