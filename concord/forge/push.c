/* push.c - a branch to the person's fork: by libgit2 with the token in memory, by git where ssh is spoken. */
#include "concord/forge/forge.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

static int git_fail(struct err *e, const char *what)
{
    const git_error *g = git_error_last();
    return err_set(e, "%s: %s", what, g && g->message ? g->message : "unknown reason");
}

/* ssh://... or host:path, which is no URL and no Windows or local path. */
static bool is_ssh(const char *url)
{
    const char *colon = strchr(url, ':'), *slash = strchr(url, '/');
    if (str_starts(url, "ssh://")) return true;
    return colon && !strstr(url, "://") && (!slash || colon < slash);
}

static int push_by_git(const char *clone, const char *to, const char *refspec, struct err *e)
{
    const char *const argv[] = {"git", "-C", clone, "push", "--quiet", "--", to, refspec, NULL};
    static const char *const env[] = {"GIT_TERMINAL_PROMPT=0", NULL};
    const struct proc_spec spec = {.argv = argv, .env = env, .timeout_ms = 600000, .merge = true};
    struct proc_result r;
    if (proc_run(&spec, &r, e)) return -1;
    char *words = xstrndup(buf_str(&r.out), strcspn(buf_str(&r.out), "\n"));
    int status = r.status ? err_set(e, "git push %s %s: %s", to, refspec, words) : 0;
    free(words);
    proc_result_free(&r);
    return status;
}

struct attempt {
    const char *token, *host; /* the token is for this host alone */
    int asked;                /* a server that refuses the token asks again and again */
    char said[200];           /* why the remote refused the reference */
};

static bool for_host(const char *url, const char *host)
{
    const char *at = strstr(url, "://");
    if (!at || strncmp(url, "https", 5) != 0) return false;
    at += 3;
    size_t n = strcspn(at, "/:"), user = strcspn(at, "@");
    if (user < n) at += user + 1, n -= user + 1;
    return n == strlen(host) && !strncmp(at, host, n);
}

static int give_token(git_credential **out, const char *url, const char *user, unsigned allowed, void *data)
{
    struct attempt *a = data;
    if (a->asked++ || !a->token || !for_host(url, a->host) || !(allowed & GIT_CREDENTIAL_USERPASS_PLAINTEXT))
        return GIT_EAUTH;
    return git_credential_userpass_plaintext_new(out, user && *user ? user : "oauth2", a->token);
}

static int note_refusal(const char *ref, const char *status, void *data)
{
    struct attempt *a = data;
    if (status) snprintf(a->said, sizeof a->said, "%s: %s", ref, status);
    return 0;
}

static int push_by_library(git_remote *remote, const char *to, const char *refspec,
                           const struct forge_session *s, struct err *e)
{
    struct attempt a = {.token = s->token, .host = s->forge->host};
    git_push_options o;
    char *specs[] = {(char *)refspec};
    const git_strarray list = {specs, 1};
    if (git_push_options_init(&o, GIT_PUSH_OPTIONS_VERSION)) return git_fail(e, to);
    o.callbacks.credentials = give_token;
    o.callbacks.push_update_reference = note_refusal;
    o.callbacks.payload = &a;
    if (git_remote_push(remote, &list, &o)) return git_fail(e, to);
    return *a.said ? err_set(e, "%s refuses %s", to, a.said) : 0;
}

static int find_remote(git_repository *repo, const char *to, git_remote **out, struct err *e)
{
    if (!git_remote_lookup(out, repo, to)) return 0;
    bool place = strchr(to, '/') || strchr(to, ':');
    if (place && !git_remote_create_anonymous(out, repo, to)) return 0;
    return err_set(e, "no remote '%s' in %s: add it with `git remote add %s URL`, or set review.push", to,
                   git_repository_path(repo), to);
}

int forge_push(struct forge_session *s, const char *clone, const char *to, const char *branch, bool replace,
               struct err *e)
{
    git_repository *repo = NULL;
    git_remote *remote = NULL;
    char *refspec = xformat("%srefs/heads/%s:refs/heads/%s", replace ? "+" : "", branch, branch);
    git_libgit2_init();
    int status = git_repository_open(&repo, clone) ? git_fail(e, clone) : find_remote(repo, to, &remote, e);
    if (!status) {
        const char *url = git_remote_pushurl(remote) ? git_remote_pushurl(remote) : git_remote_url(remote);
        status =
            is_ssh(url) ? push_by_git(clone, to, refspec, e) : push_by_library(remote, to, refspec, s, e);
    }
    git_remote_free(remote);
    git_repository_free(repo);
    git_libgit2_shutdown();
    free(refspec);
    return status;
}
