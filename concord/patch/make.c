/* make.c - a patch from two contents, by libgit2's diff with git's own settings. */
#include "concord/patch/patch.h"

#include <git2.h>
#include <pthread.h>
#include <string.h>

static void start_git(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, (void (*)(void))git_libgit2_init);
}

static int git_fail(struct err *e, const char *path)
{
    const git_error *g = git_error_last();
    return err_set(e, "%s: cannot compare: %s", path, g && g->message ? g->message : "unknown reason");
}

/* libgit2 takes buffers for plain files; the header, up to the first hunk, gets the real mode. */
static void add_with_mode(struct slice text, uint32_t mode, struct buf *out)
{
    const char *body = memmem(text.ptr, text.len, "\n@@ ", 4);
    size_t head = body ? (size_t)(body - text.ptr) : text.len;
    char digits[16];
    snprintf(digits, sizeof digits, " %06o\n", mode);
    const char *at = text.ptr, *hit;
    while ((hit = memmem(at, head - (size_t)(at - text.ptr), " 100644\n", 8))) {
        buf_add(out, at, (size_t)(hit - at));
        buf_adds(out, digits);
        at = hit + 8;
    }
    buf_add(out, at, text.len - (size_t)(at - text.ptr));
}

int patch_make(const char *path, struct slice pre, struct slice post, uint32_t mode,
               const struct make_options *o, struct buf *out, struct err *e)
{
    static const struct make_options defaults = {0};
    if (!o) o = &defaults;
    if (pre.ptr && post.ptr && slice_eq(pre, post)) return 0;
    start_git();
    git_diff_options opts;
    git_diff_options_init(&opts, GIT_DIFF_OPTIONS_VERSION);
    opts.flags = GIT_DIFF_INDENT_HEURISTIC | GIT_DIFF_FORCE_TEXT;
    opts.context_lines = o->context == UINT32_MAX ? 0 : o->context ? o->context : 3;
    opts.id_abbrev = (uint16_t)(o->id_digits ? o->id_digits : 11);
    git_patch *made = NULL;
    git_buf text = {0};
    if (git_patch_from_buffers(&made, pre.ptr, pre.len, path, post.ptr, post.len, path, &opts) ||
        git_patch_to_buf(&text, made)) {
        git_patch_free(made);
        return git_fail(e, path);
    }
    add_with_mode((struct slice){text.ptr, text.size}, mode ? mode : 0100644, out);
    git_buf_dispose(&text);
    git_patch_free(made);
    return 0;
}

int merge_three(struct slice base, struct slice ours, struct slice theirs, struct buf *out)
{
    start_git();
    git_merge_file_input in[3];
    const struct slice texts[] = {base, ours, theirs};
    for (int i = 0; i < 3; i++) {
        git_merge_file_input_init(&in[i], GIT_MERGE_FILE_INPUT_VERSION);
        in[i].ptr = texts[i].ptr;
        in[i].size = texts[i].len;
    }
    git_merge_file_result r = {0};
    buf_clear(out);
    if (git_merge_file(&r, &in[0], &in[1], &in[2], NULL)) die("out of memory while merging");
    bool merged = r.automergeable;
    if (merged) buf_add(out, r.ptr, r.len);
    git_merge_file_result_free(&r);
    return !merged;
}
