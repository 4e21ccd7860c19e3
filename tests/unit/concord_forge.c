/* concord_forge.c - the forges' table, branches made in a repository, and the evidence archive. */
#include "concord/forge/branch.h"
#include "concord/forge/forge.h"
#include "concord/pack/pack.h"

#include <git2.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static char root[] = "/tmp/concord_forge.XXXXXX";
static char *repo_path;

/* ---- a repository of one branch ---------------------------------------------------------------------- */

static void commit_on(git_repository *repo, const char *branch, const char *text)
{
    git_oid blob, tree, id, parent_id;
    git_treebuilder *builder;
    git_tree *t;
    git_signature *who;
    git_commit *parent = NULL;
    char *ref = xformat("refs/heads/%s", branch);
    assert_int_equal(git_blob_create_from_buffer(&blob, repo, text, strlen(text)), 0);
    assert_int_equal(git_treebuilder_new(&builder, repo, NULL), 0);
    assert_int_equal(git_treebuilder_insert(NULL, builder, "README", &blob, GIT_FILEMODE_BLOB), 0);
    assert_int_equal(git_treebuilder_write(&tree, builder), 0);
    assert_int_equal(git_tree_lookup(&t, repo, &tree), 0);
    assert_int_equal(git_signature_new(&who, "Base", "base@example.org", 1700000000, 0), 0);
    if (!git_reference_name_to_id(&parent_id, repo, ref))
        assert_int_equal(git_commit_lookup(&parent, repo, &parent_id), 0);
    const git_commit *parents[] = {parent};
    assert_int_equal(
        git_commit_create(&id, repo, ref, who, who, NULL, text, t, parent ? 1 : 0, (void *)parents), 0);
    git_commit_free(parent);
    git_signature_free(who);
    git_tree_free(t);
    git_treebuilder_free(builder);
    free(ref);
}

static void advance(const char *branch, const char *text)
{
    git_repository *repo;
    assert_int_equal(git_repository_open(&repo, repo_path), 0);
    commit_on(repo, branch, text);
    git_repository_free(repo);
}

static int set_up(void **state)
{
    (void)state;
    git_repository *repo;
    git_config *config;
    git_libgit2_init();
    if (!mkdtemp(root)) return -1;
    repo_path = xformat("%s/plugin.git", root);
    assert_int_equal(git_repository_init(&repo, repo_path, true), 0);
    assert_int_equal(git_repository_config(&config, repo), 0);
    git_config_set_string(config, "user.name", "Ada");
    git_config_set_string(config, "user.email", "ada@example.org");
    git_config_free(config);
    commit_on(repo, "v2.7.1", "one");
    git_repository_free(repo);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(repo_path);
    git_libgit2_shutdown();
    return tree_remove(root, NULL);
}

/* ---- branches ---------------------------------------------------------------------------------------- */

static const struct branch_file one_file[] = {{"test_upstream/test/a.patch", "x\n", 2}};

static struct branch_request request(const char *name, const char *base)
{
    return (struct branch_request){repo_path,         name,     base, "refs/heads/v2.7.1",
                                   "title\n\nbody\n", one_file, 1,    false};
}

static json_t *fact(const char *name, const char *base, const char *commit, const char *file)
{
    return json_pack("{s:s, s:s, s:s, s:[s]}", "name", name, "base", base, "commit", commit, "files", file);
}

static void a_branch_is_one_commit_and_repeatable(void **state)
{
    (void)state;
    char base[BRANCH_ID_MAX], first[BRANCH_ID_MAX], second[BRANCH_ID_MAX];
    struct buf text = BUF_INIT;
    struct err e;
    assert_int_equal(branch_resolve(repo_path, "refs/heads/v2.7.1", base, &e), 0);
    struct branch_request a = request("a", base), b = request("b", base);
    assert_int_equal(branch_make(&a, first, &e), 0);
    assert_int_equal(branch_make(&a, second, &e), 0); /* there already */
    assert_string_equal(first, second);
    assert_int_equal(branch_make(&b, second, &e), 0);
    assert_string_equal(first, second);
    assert_int_equal(branch_read(repo_path, first, one_file[0].path, &text, &e), 1);
    assert_string_equal(buf_str(&text), "x\n");
    assert_int_equal(branch_read(repo_path, first, "no/such", &text, &e), 0);
    json_t *good = fact("a", base, first, one_file[0].path), *other = fact("a", base, first, "README");
    assert_true(branch_is(repo_path, good));
    assert_false(branch_is(repo_path, other));
    json_object_set_new(good, "base", json_string(first));
    assert_false(branch_is(repo_path, good));
    json_decref(good);
    json_decref(other);
    buf_free(&text);
}

static void what_would_lose_work_is_refused(void **state)
{
    (void)state;
    char base[BRANCH_ID_MAX], commit[BRANCH_ID_MAX];
    struct err e;
    assert_int_equal(branch_resolve(repo_path, "refs/heads/v2.7.1", base, &e), 0);
    struct branch_request q = request("a", base);
    q.message = "another\n";
    assert_int_equal(branch_make(&q, commit, &e), -1);
    assert_non_null(strstr(e.text, "exists with another commit"));
    q.replace = true;
    assert_int_equal(branch_make(&q, commit, &e), 0);
    struct branch_request same = request("c", commit);
    same.base_ref = "refs/heads/a";
    assert_int_equal(branch_make(&same, commit, &e), -1);
    assert_non_null(strstr(e.text, "nothing to review"));
    advance("v2.7.1", "two");
    struct branch_request late = request("d", base);
    assert_int_equal(branch_make(&late, commit, &e), -1);
    assert_non_null(strstr(e.text, "moved from"));
    assert_int_equal(branch_resolve(repo_path, "refs/heads/d", commit, &e), -1);
}

static void places_are_named(void **state)
{
    (void)state;
    char id[BRANCH_ID_MAX];
    struct err e;
    char *ref = branch_base_ref(repo_path, "v2.7.1", &e);
    assert_string_equal(ref, "refs/heads/v2.7.1");
    free(ref);
    assert_null(branch_base_ref(repo_path, "v9", &e));
    assert_non_null(strstr(e.text, "no branch v9"));
    assert_int_equal(branch_resolve("/nowhere", "x", id, &e), -1);
    assert_non_null(strstr(e.text, "not a git repository"));
}

/* ---- forges ------------------------------------------------------------------------------------------ */

static const struct review sample = {"Ascend/pytorch", "ada/pytorch", "topic-v2.7.1", "v2.7.1", "t", "b"};

static void urls_of_every_forge(void **state)
{
    (void)state;
    static const char *const made[FORGE_COUNT] = {
        "https://api.gitcode.com/api/v5/repos/Ascend/pytorch/pulls",
        "https://gitee.com/api/v5/repos/Ascend/pytorch/pulls",
        "https://api.github.com/repos/Ascend/pytorch/pulls",
        "https://gitlab.com/api/v4/projects/ada%2Fpytorch/merge_requests"};
    static const char *const changed[FORGE_COUNT] = {
        "https://api.gitcode.com/api/v5/repos/Ascend/pytorch/pulls/7",
        "https://gitee.com/api/v5/repos/Ascend/pytorch/pulls/7",
        "https://api.github.com/repos/Ascend/pytorch/pulls/7",
        "https://gitlab.com/api/v4/projects/Ascend%2Fpytorch/merge_requests/7"};
    for (int i = 0; i < FORGE_COUNT; i++) {
        struct forge_session s;
        struct err e;
        assert_int_equal(forge_open(&s, (enum forge_id)i, NULL, &e), 0);
        char *make = forge_url(&s, s.forge->make, &sample, 0),
             *change = forge_url(&s, s.forge->change, &sample, 7);
        assert_string_equal(make, made[i]);
        assert_string_equal(change, changed[i]);
        free(make);
        free(change);
        forge_close(&s);
    }
}

static void payloads(void **state)
{
    (void)state;
    for (int i = 0; i < FORGE_COUNT; i++) {
        json_t *p = forges[i].payload(&sample, 9);
        assert_non_null(p);
        assert_string_equal(json_string_value(json_object_get(p, "title")), "t");
        bool merge = i == FORGE_GITLAB;
        assert_string_equal(json_string_value(json_object_get(p, merge ? "source_branch" : "head")),
                            merge ? "topic-v2.7.1" : "ada:topic-v2.7.1");
        assert_int_equal(json_object_get(p, "fork_path") != NULL, i == FORGE_GITCODE);
        json_decref(p);
    }
}

static void only_our_review_is_ours(void **state)
{
    (void)state;
    static const struct {
        const char *ref, *repo, *base;
        bool ours;
    } rows[] = {{"topic-v2.7.1", "ada/pytorch", "v2.7.1", true},
                {"topic-v2.7.1", "eve/pytorch", "v2.7.1", false},
                {"topic-v2.9.0", "ada/pytorch", "v2.7.1", false},
                {"topic-v2.7.1", "ada/pytorch", "v2.9.0", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *item = json_pack("{s:{s:s, s:{s:s}}, s:{s:s}}", "head", "ref", rows[i].ref, "repo",
                                 "full_name", rows[i].repo, "base", "ref", rows[i].base);
        assert_int_equal(forges[FORGE_GITHUB].is_ours(item, &sample), rows[i].ours);
        json_decref(item);
    }
}

static void the_token_goes_over_https_only(void **state)
{
    (void)state;
    struct forge_session s;
    struct err e;
    static const char *const bad[] = {"http://forge.example/api", "http://localhost.evil.example/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(forge_open(&s, FORGE_GITCODE, bad[i], &e), -1);
    assert_int_equal(forge_open(&s, FORGE_GITCODE, "http://127.0.0.1:8080/", &e), 0);
    setenv("GITCODE_TOKEN", "two words", 1);
    assert_int_equal(forge_token(&s, &e), -1);
    assert_null(strstr(e.text, "two words"));
    unsetenv("GITCODE_TOKEN");
    forge_close(&s);
}

/* ---- the archive ------------------------------------------------------------------------------------- */

static char *small_archive(const char *name, const char *const (*entries)[2], size_t n)
{
    pack_files files = {0};
    struct err e;
    char *path = xformat("%s/%s", root, name);
    for (size_t i = 0; i < n; i++) {
        struct pack_file *f = vec_push(&files);
        f->path = xstrdup(entries[i][0]);
        buf_adds(&f->data, entries[i][1]);
    }
    if (archive_put(path, "x-evidence", &files, &e)) fail_msg("%s", e.text);
    pack_files_free(&files);
    return path;
}

static const char *const whole[][2] = {
    {PACK_MANIFEST, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  a.txt\n"},
    {"a.txt", "x"}};

static int verdict_of(const char *path)
{
    struct pack_verdict v;
    struct err e;
    if (pack_verify(path, NULL, &v, &e)) return -1;
    int faults = (int)v.faults.len;
    pack_verdict_free(&v);
    return faults;
}

static void every_bit_counts(void **state)
{
    (void)state;
    char *path = small_archive("whole.tar.gz", whole, 2), *broken = xformat("%s/broken.tar.gz", root);
    struct buf data = BUF_INIT;
    struct err e;
    assert_int_equal(verdict_of(path), 0);
    assert_int_equal(file_read(path, &data, &e), 0);
    for (size_t i = 0; i < data.len * 8; i++) {
        data.ptr[i / 8] = (char)(data.ptr[i / 8] ^ (1 << i % 8));
        assert_int_equal(file_write(broken, data.ptr, data.len, 0, &e), 0);
        if (!verdict_of(broken)) fail_msg("bit %zu is free", i);
        data.ptr[i / 8] = (char)(data.ptr[i / 8] ^ (1 << i % 8));
    }
    for (size_t n = 0; n < data.len; n++) {
        assert_int_equal(file_write(broken, data.ptr, n, 0, &e), 0);
        assert_int_not_equal(verdict_of(broken), 0);
    }
    buf_free(&data);
    free(path);
    free(broken);
}

static void odd_archives_are_refused(void **state)
{
    (void)state;
    static const char *const climbing[][2] = {{PACK_MANIFEST, ""}, {"../../etc/x", "x"}};
    static const char *const bare[][2] = {{"a.txt", "x"}};
    static const char *const extra[][2] = {{whole[0][0], whole[0][1]}, {"a.txt", "x"}, {"b.txt", "y"}};
    static const char *const missing[][2] = {{whole[0][0], whole[0][1]}};
    char *paths[] = {small_archive("1.tar.gz", climbing, 2), small_archive("2.tar.gz", bare, 1),
                     small_archive("3.tar.gz", extra, 3), small_archive("4.tar.gz", missing, 1)};
    static const int expected[] = {-1, -1, 1, 1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(verdict_of(paths[i]), expected[i]);
        free(paths[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_branch_is_one_commit_and_repeatable),
                                       cmocka_unit_test(what_would_lose_work_is_refused),
                                       cmocka_unit_test(places_are_named),
                                       cmocka_unit_test(urls_of_every_forge),
                                       cmocka_unit_test(payloads),
                                       cmocka_unit_test(only_our_review_is_ours),
                                       cmocka_unit_test(the_token_goes_over_https_only),
                                       cmocka_unit_test(every_bit_counts),
                                       cmocka_unit_test(odd_archives_are_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
