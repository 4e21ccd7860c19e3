/* forges.c - the table of forges, and the two shapes that they have: pulls (GitHub's, which GitCode and Gitee
 * follow) and merge requests (GitLab's). */
#include "concord/forge/forge.h"
#include "concord/forge/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* "owner" of OWNER/NAME. Owned. */
static char *owner_of(const char *repository)
{
    return xstrndup(repository, strcspn(repository, "/"));
}

static json_t *pull_payload(const struct review *r, int64_t target)
{
    (void)target;
    char *owner = owner_of(r->fork), *head = xformat("%s:%s", owner, r->branch);
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:s}", "title", r->title, "head", head, "base", r->base, "body", r->body);
    free(head);
    free(owner);
    return j;
}

/* GitCode wants the fork's path beside the head. */
static json_t *gitcode_payload(const struct review *r, int64_t target)
{
    json_t *j = pull_payload(r, target);
    if (strcmp(r->fork, r->repository) != 0) json_object_set_new(j, "fork_path", json_string(r->fork));
    return j;
}

static json_t *merge_payload(const struct review *r, int64_t target)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I}", "source_branch", r->branch, "target_branch", r->base,
                     "title", r->title, "description", r->body, "target_project_id", (json_int_t)target);
}

/* The head is the fork's branch, whatever the forge calls the parts of it. */
static bool pull_is_ours(const json_t *item, const struct review *r)
{
    const json_t *head = json_object_get(item, "head"), *repo = json_object_get(head, "repo");
    const char *full = text_of(repo, "full_name"), *path = text_of(repo, "path_with_namespace");
    const char *whose = *full ? full : path;
    char *owner = owner_of(r->fork), *label = xformat("%s:%s", owner, r->branch);
    bool named = !strcmp(text_of(head, "ref"), r->branch) || !strcmp(text_of(head, "label"), label);
    bool mine = *whose ? !strcmp(whose, r->fork) : !strcmp(text_of(head, "label"), label);
    bool same = named && mine && !strcmp(text_of(json_object_get(item, "base"), "ref"), r->base);
    free(label);
    free(owner);
    return same;
}

static bool merge_is_ours(const json_t *item, const struct review *r)
{
    return !strcmp(text_of(item, "source_branch"), r->branch) &&
           !strcmp(text_of(item, "target_branch"), r->base);
}

#define PULLS "/repos/{repo}/pulls"
#define LIST_PULLS PULLS "?state=open&base={base}&per_page=100"

const struct forge forges[] = {
    [FORGE_GITCODE] = {"gitcode", "https://api.gitcode.com/api/v5", "gitcode.com",
                       "PRIVATE-TOKEN: ", "GITCODE_TOKEN", 9500, LIST_PULLS, PULLS, PULLS "/{number}", NULL,
                       "PATCH", "number", "html_url", "body", gitcode_payload, pull_is_ours},
    [FORGE_GITEE] = {"gitee", "https://gitee.com/api/v5", "gitee.com", "Authorization: Bearer ",
                     "GITEE_TOKEN", 60000, LIST_PULLS, PULLS, PULLS "/{number}", NULL, "PATCH", "number",
                     "html_url", "body", pull_payload, pull_is_ours},
    [FORGE_GITHUB] = {"github", "https://api.github.com", "github.com", "Authorization: Bearer ",
                      "GITHUB_TOKEN", 65000, LIST_PULLS "&head={owner}:{branch}", PULLS, PULLS "/{number}",
                      NULL, "PATCH", "number", "html_url", "body", pull_payload, pull_is_ours},
    [FORGE_GITLAB] =
        {"gitlab", "https://gitlab.com/api/v4", "gitlab.com", "PRIVATE-TOKEN: ", "GITLAB_TOKEN", 1000000,
         "/projects/{repo%}/merge_requests?state=opened&source_branch={branch}&target_branch={base}",
         "/projects/{fork%}/merge_requests", "/projects/{repo%}/merge_requests/{number}", "/projects/{repo%}",
         "PUT", "iid", "web_url", "description", merge_payload, merge_is_ours},
};
static_assert(sizeof forges / sizeof *forges == FORGE_COUNT, "one row a forge");
static_assert(sizeof(const char *[]){FORGE_NAMES} / sizeof(const char *) == FORGE_COUNT, "one name a forge");

size_t review_limit(const struct campaign_review *r)
{
    return r->limit ? (size_t)r->limit : forges[r->forge].limit;
}

void review_found_free(struct review_found *f)
{
    free(f->url);
    free(f->body);
    *f = (struct review_found){0};
}
