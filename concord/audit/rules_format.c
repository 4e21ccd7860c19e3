/* rules_format.c - format rules beyond what the parser finds, and the upstream rules. */
#include "concord/audit/audit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void rule_hunk_blank_only(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (uint32_t i = 0; i < v->lines.len;) {
        const struct vline *first = &v->lines.ptr[i];
        uint32_t changed = 0, blank = 0;
        for (; i < v->lines.len && v->lines.ptr[i].hunk == first->hunk; i++) {
            const struct vline *l = &v->lines.ptr[i];
            if (l->kind == LINE_CONTEXT) continue;
            changed++;
            blank += l->blank;
        }
        const struct hunk *h = &v->p->hunks.ptr[first->hunk];
        if (changed && changed == blank)
            audit_finding_add(out, rule, v->file, h->line + 1, first->text, "changes blank lines only");
    }
}

/* Ids that a person typed: one digit repeated, digits that count up or down, or two equal sides. */
static bool looks_typed(const char *id)
{
    if (!*id || blob_id_is_zero(id)) return false;
    bool same = true, up = true, down = true;
    for (size_t i = 1; id[i]; i++) {
        int a = isdigit((unsigned char)id[i - 1]) ? id[i - 1] - '0' : id[i - 1] - 'a' + 10;
        int b = isdigit((unsigned char)id[i]) ? id[i] - '0' : id[i] - 'a' + 10;
        same &= a == b;
        up &= b == (a + 1) % 16 || (a == 9 && b == 0);
        down &= b == (a + 15) % 16;
    }
    return same || up || down;
}

void rule_id_fabricated(const struct rule *rule, const struct view *v, struct findings *out)
{
    const struct patch_file *f = v->f;
    if (!f || !f->index_line) return;
    struct slice text = patch_line_text(v->p, f->index_line);
    bool equal = *f->old_id && !strcmp(f->old_id, f->new_id) && f->hunk != f->hunk_end;
    if (equal)
        audit_finding_add(out, rule, v->file, f->index_line + 1, text, "both sides have the id %s",
                          f->old_id);
    else if (looks_typed(f->old_id) || looks_typed(f->new_id))
        audit_finding_add(out, rule, v->file, f->index_line + 1, text, "%s..%s was not made by git",
                          f->old_id, f->new_id);
}

void rule_target_name(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (!v->f || !v->f->path || v->p->files.len != 1) return;
    char *named = patch_named_target(v->file);
    if (named && strcmp(named, v->f->path) != 0)
        audit_finding_add(out, rule, v->file, v->f->line + 1, slice_str(v->f->path),
                          "changes %s, its name says %s", v->f->path, named);
    free(named);
}

void rule_conflict_marker(const struct rule *rule, const struct view *v, struct findings *out)
{
    static const char *const marks[] = {"<<<<<<< ", ">>>>>>> ", "||||||| "};
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        bool mark = slice_eq(l->text, slice_str("======="));
        for (size_t k = 0; k < 3; k++) mark |= slice_starts(l->text, marks[k]);
        if (vline_added(l) && mark)
            rule_report(rule, v, out, l, "a conflict marker: '%.*s'", SLICE_FMT(l->text));
    }
}

void rule_tab_added(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !v->python || l->in_string || l->blank) continue;
        if (l->indent && memchr(l->text.ptr, '\t', l->indent))
            rule_report(rule, v, out, l, "indented with a tab");
    }
}

void rule_trailing_blank_added(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !l->text.len || l->in_string) continue;
        char last = l->text.ptr[l->text.len - 1];
        if (last == ' ' || last == '\t') rule_report(rule, v, out, l, "ends in blanks");
    }
}

/* ---- against upstream -------------------------------------------------------------------------------- */

static enum rule_id rule_of_outcome(enum apply_outcome o)
{
    static const enum rule_id of[APPLY_OUTCOME_COUNT] = {
        [APPLY_clean] = RULE_COUNT,           [APPLY_already] = RULE_COUNT,
        [APPLY_offset] = RULE_needs_offset,   [APPLY_fuzz] = RULE_needs_fuzz,
        [APPLY_fails] = RULE_does_not_apply,  [APPLY_wrong_base] = RULE_base_id,
        [APPLY_wrong_result] = RULE_post_id,  [APPLY_absent] = RULE_target_absent,
        [APPLY_exists] = RULE_does_not_apply, [APPLY_blocked] = RULE_COUNT,
    };
    return of[o];
}

/* One function for the six rules: each reports its own outcome. */
void rule_upstream(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (!v->f || !v->applied || !v->f->path) return;
    const struct apply_result *r = v->applied;
    enum rule_id id = rule_of_outcome(r->outcome);
    if (id == RULE_COUNT || rule != &rules[id]) return;
    audit_finding_add(out, rule, v->file, r->line + 1, slice_str(v->f->path), "%s: %s", v->f->path, r->text);
}

void rule_syntax_error(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (!v->pre || !v->post || v->pre->error_row || !v->post->error_row) return;
    audit_finding_add(out, rule, v->file, v->f->line + 1, slice_str(v->f->path),
                      "%s: a syntax error in row %u of the result", v->f->path, v->post->error_row);
}

void rule_torch_and_tests(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (v->f) return;
    bool torch = false, test = false;
    for (size_t i = 0; i < v->p->files.len; i++) {
        const char *path = v->p->files.ptr[i].path;
        torch |= path && str_starts(path, "torch/");
        test |= path && str_starts(path, "test/");
    }
    if (torch && test)
        audit_finding_add(out, rule, v->file, 1, (struct slice){"", 0}, "changes torch/ and test/");
}
