/* tokens.h - Python text as tokens with the device taken out of it, and two such texts laid side by side.
 *
 * This is how a hunk that people wrote is judged without looking at what the rules make of it: white space,
 * line breaks and quotes say nothing; a device that a call is given (device=D, .npu(), .to(D)) is no token
 * but a mark on the token before it; names and strings that differ only in the device's name are alike.
 */
#ifndef CONCORD_ADAPT_TOKENS_H
#define CONCORD_ADAPT_TOKENS_H

#include "concord/base/base.h"
#include "concord/patch/patch.h"

struct token {
    struct slice text; /* a string without prefix and quotes */
    char kind;         /* 'n' name or number, 's' string, '#' comment, else the character itself */
    uint32_t row;      /* from 0 */
    char *mark;        /* the device given here: "npu", "device_type"; NULL for none; owned */
    char spelt;        /* how: 'k' device=, 'm' .npu(), 't' .to(), 'h' given to each module of a container */
};
typedef VEC(struct token) tokens;

/* text must live as long as the tokens. device: "npu". */
void tokens_read(struct slice text, const char *device, tokens *out);
void tokens_free(tokens *t);
/* The same text but for white space and quotes. */
bool token_same(const struct token *a, const struct token *b);
/* The same but for the name of the device: cuda and npu, TEST_CUDA and TEST_NPU, nccl and hccl. */
bool token_alike(const struct token *a, const struct token *b);
/* spelling: marks must be spelt alike too, and names be the same; otherwise the same calls have the same
 * device. */
bool tokens_same(const tokens *a, const tokens *b, bool spelling);
/* Marks that change nothing: on x_like(y), which follows y; on a torch.nn module without parameters; on a
 * module inside a container or a module that has the mark itself; on a layer or a parameter where a class
 * makes it
 * (`self.x = ...`), which moves with the instance. was: the text before the edit, laid beside by to; what
 * it has already is kept. */
struct needless {
    bool (*stateless)(const char *name, const void *context); /* of a class that is not torch.nn's */
    const void *context;
};
void tokens_drop_needless(tokens *b, const tokens *was, const uint32_t *to, struct needless n);

/* Longest common subsequence of alike tokens: to[i] is the partner in b of token i of a, UINT32_MAX for none.
 * False (and no partner at all) for texts too long to compare. */
bool tokens_align(const tokens *a, const tokens *b, uint32_t *to);

#endif
