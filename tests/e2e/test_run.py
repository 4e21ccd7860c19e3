"""concord run from a campaign to branches, texts, archive and reviews, on repositories laid out like the plugin's.

One campaign is run for the session on the releases whose environments are there (CONCORD_TEST_RELEASES names others);
every test works on its own copy of what that left.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forge_server import Forge
from plugin_like import APIS, AUTOGRAD, MISC, TEMPLATE_TEXT, git, make_plugin, make_upstream, write

ROOT = Path(__file__).resolve().parents[2]
CONCORD = Path(os.environ.get("CONCORD", ROOT / "build" / "bin" / "concord")).resolve()
CAMPAIGN = ROOT / "campaigns" / "utils-checkpoint.yaml"
TOPIC = "test-checkpoint-overrides-npu"
RELEASES = tuple(os.environ.get("CONCORD_TEST_RELEASES", "2.7.1,2.12.0").split(","))
TOKEN = "s3cret-t0ken-of-a-person"
PUBLIC_TOKENS = ("GITCODE_TOKEN", "GITEE_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN")


class Work:
    """A folder with the clone, upstream, journal and dossier of a campaign."""

    def __init__(self, root: Path) -> None:
        self.root, self.plugin, self.upstream = root, root / "plugin", root / "upstream"
        self.dossier, self.journal = root / "work", root / "journal.db"

    def command(self, name: str, *arguments: str) -> list[str]:
        places = ["--plugin", str(self.plugin), "--work", str(self.dossier)]
        if name != "pack":
            places += ["--versions", ",".join(RELEASES)]
        if name == "run":
            places += ["--upstream", str(self.upstream), "--journal", str(self.journal), "--device", "software"]
        return [str(CONCORD), name, str(CAMPAIGN), *places, *arguments]

    def run(self, name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if k not in PUBLIC_TOKENS}
        env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **variables}
        return subprocess.run(self.command(name, *arguments), capture_output=True, text=True, env=env, timeout=900)

    def fact(self, name: str) -> dict:
        return json.loads((self.dossier / "facts" / f"{name}.json").read_text(encoding="utf-8"))["body"]

    def boxes(self) -> dict[str, bool]:
        out = self.root / "boxes"
        done = self.run("run", "--from", "report", "--to", "report")
        assert done.returncode == 0, done.stderr
        shutil.copytree(self.dossier / "report", out, dirs_exist_ok=True)
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        return {c["id"]: c["ticked"] for c in report["checklist"]}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Work:
    for release in RELEASES:
        created = subprocess.run([CONCORD, "env", "create", release], capture_output=True, text=True)
        if created.returncode:
            pytest.skip(f"no environment for {release}: {created.stderr.strip()}", allow_module_level=True)
    earlier = os.environ.get("CONCORD_TEST_MADE")  # the folder of an earlier session: its run is not repeated
    work = Work(Path(earlier) if earlier else tmp_path_factory.mktemp("campaign"))
    if earlier:
        done = work.run("run", "--replace")
        assert done.returncode == 0, done.stdout + done.stderr
        return work
    make_upstream(work.upstream, RELEASES)
    make_plugin(work.plugin, work.upstream, RELEASES)
    done = work.run("run")
    assert done.returncode == 0, done.stdout + done.stderr
    return work


@pytest.fixture
def work(made: Work, tmp_path: Path) -> Work:
    copy = Work(tmp_path / "copy")
    shutil.copytree(made.root, copy.root, symlinks=True)
    for fact in (copy.dossier / "facts").glob("*.json"):
        text = fact.read_text(encoding="utf-8")
        fact.write_text(text.replace(str(made.root), str(copy.root)), encoding="utf-8")
    return copy


def branch_of(release: str) -> str:
    return f"{TOPIC}-v{release}"


# ---- what a run ends with


def test_one_commit_with_two_files_per_release(made: Work) -> None:
    for release in RELEASES:
        name = branch_of(release)
        assert git(made.plugin, "rev-list", "--count", f"v{release}..{name}") == "1"
        assert git(made.plugin, "diff", "--name-only", f"v{release}", name).split() == [MISC, AUTOGRAD]
        message = git(made.plugin, "log", "-1", "--format=%B", name)
        assert message.startswith(
            "test(utils): adapt torch.overrides.is_tensor_like, torch.utils.checkpoint.checkpoint and "
        )
        assert f"torch_npu {release}" in message and "device kind: software" in message
        assert git(made.plugin, "log", "-1", "--format=%an <%ae>", name) == "Ada Example <ada@example.org>"
        patch = git(made.plugin, "show", f"{name}:{AUTOGRAD}")
        assert '+        x = torch.randn(4, 8, device="npu", requires_grad=True)' in patch
        assert ("torch.zeros(2).npu()" in patch) == (release != "2.9.0"), "the base's own hunk is kept"


def test_the_patches_apply_to_upstream(made: Work, tmp_path: Path) -> None:
    for release in RELEASES:
        tree = tmp_path / release
        subprocess.run(
            ["git", "clone", "-q", "-b", f"v{release}", made.upstream, tree], check=True, capture_output=True
        )
        for patch in (AUTOGRAD, MISC):
            show = ["git", "-C", made.plugin, "show", f"{branch_of(release)}:{patch}"]
            text = subprocess.run(show, check=True, capture_output=True).stdout
            done = subprocess.run(["git", "-C", tree, "apply", "--check", "-"], input=text, capture_output=True)
            assert done.returncode == 0, done.stderr


def test_the_checkout_is_not_disturbed(made: Work) -> None:
    assert git(made.plugin, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert git(made.plugin, "status", "--porcelain") == ""
    assert sorted(p.name for p in made.plugin.iterdir()) == [".git", "README.md"]


def test_identical_input_gives_identical_commits(work: Work) -> None:
    names = [branch_of(r) for r in RELEASES]
    before = [git(work.plugin, "rev-parse", n) for n in names]
    git(work.plugin, "branch", "-D", *names)
    done = work.run("branch")
    assert done.returncode == 0, done.stderr
    assert [git(work.plugin, "rev-parse", n) for n in names] == before


SECTIONS = {
    "en": ["Background", "Environment", "API scope", "Change plan", "Results per release", "Tests adapted, and why",
           "Documentation check", "Method", "Reviews, one per branch", "Static audit", "Conclusion", "Checklist"],
    "zh": ["背景", "环境信息", "API 范围", "修改方案", "各版本验证结果", "测试用例适配说明", "资料检查", "验证方法",
           "关联评审（每分支一个）", "静态审计", "验证结论", "检查清单"],
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_task_text_has_every_section(made: Work, language: str) -> None:
    text = (made.dossier / "report" / f"report.{language}.md").read_text(encoding="utf-8")
    for section in SECTIONS[language]:
        assert f"\n## {section}\n" in text
        body = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
        assert body.strip(), section
    assert all(f"`{api}`" in text for api in APIS)
    boxes = [line for line in text.splitlines() if line.startswith("- [")]
    assert len(boxes) >= 20
    unticked = [line for line in boxes if line.startswith("- [ ]")]
    assert len(unticked) == 1 and ("hardware" in unticked[0] or "硬件" in unticked[0]), unticked
    for line in boxes:
        anchor = line.split("](#", 1)[1].split(")", 1)[0]
        assert f'<a id="{anchor}"></a>' in text


def test_reviews_fill_the_branch_s_template(made: Work) -> None:
    for release in RELEASES:
        text = (made.dossier / "report" / f"review-{release}.md").read_text(encoding="utf-8")
        headings = [line for line in TEMPLATE_TEXT.splitlines() if line.startswith("# ")]
        assert [line for line in text.splitlines() if line.startswith("# 【")] == headings
        assert len(text) <= 9500
        assert f"| torch\\_npu | {release}" in text and "concord verify" in text and "不是真实硬件" in text
        assert "- [x] PR标题使用类型标签 (test)" in text
        assert "- [ ] CI 流水线通过" in text and "- [ ] issue/工单" in text
        assert text.count("| PASSED |") == 3


def test_a_second_run_keeps_every_step(work: Work, made: Work) -> None:
    done = made.run("run", "--to", "branch")
    assert done.returncode == 0, done.stderr
    for step in ("scan", "adapt", "audit", "docs", "branch"):
        rows = [line for line in done.stdout.splitlines() if line.startswith(step)]
        assert len(rows) == len(RELEASES) and all(r.endswith("unchanged") for r in rows), rows
    assert "verify            unchanged" in done.stdout
    status = work.run("status")
    assert status.returncode == 0 and "to do" not in status.stdout


# ---- no claim without a fact


def rerun_branch(work: Work) -> subprocess.CompletedProcess[str]:
    git(work.plugin, "branch", "-D", *[branch_of(r) for r in RELEASES])
    return work.run("branch")


def edit_journal(work: Work, sql: str) -> None:
    with sqlite3.connect(work.journal) as db:
        assert db.execute(sql).rowcount > 0


def test_a_removed_row_unticks_and_refuses(work: Work) -> None:
    edit_journal(work, "DELETE FROM cases WHERE id = (SELECT max(id) FROM cases)")
    boxes = work.boxes()
    assert not boxes["journal"] and not boxes["whole"]
    assert boxes["same_count"] == (len(RELEASES) == 1)
    done = rerun_branch(work)
    assert done.returncode == 2 and "journal's rows" in done.stderr


def test_an_edited_verdict_unticks_and_refuses(work: Work) -> None:
    edit_journal(work, "UPDATE cases SET ms = ms + 1, launches = launches + 1 WHERE id = 1")
    assert not work.boxes()["journal"]
    assert rerun_branch(work).returncode == 2


def test_a_failed_cell_refuses(work: Work) -> None:
    edit_journal(work, "UPDATE cases SET verdict = 'FAILED' WHERE id = 1")
    assert not work.boxes()["cells"]
    done = rerun_branch(work)
    assert done.returncode == 2 and "is_tensor_like is FAILED there" in done.stderr


def test_mixed_devices_untick_and_refuse(work: Work) -> None:
    edit_journal(work, f"UPDATE release SET kind = 'hardware' WHERE name = '{RELEASES[0]}'")
    boxes = work.boxes()
    assert not boxes["one_kind"] and not boxes["hardware"]
    assert rerun_branch(work).returncode == 2


def test_a_patch_edited_after_the_audit_unticks_and_refuses(work: Work) -> None:
    patch = work.dossier / "patches" / RELEASES[0] / AUTOGRAD
    patch.write_text(
        patch.read_text(encoding="utf-8").replace("torch.ones(3).npu()", "torch.ones(3).npu() "), encoding="utf-8"
    )
    assert not work.boxes()["patches"]
    done = rerun_branch(work)
    assert done.returncode == 2 and "the one that was audited" in done.stderr


def test_a_moved_base_unticks_and_refuses(work: Work) -> None:
    git(work.plugin, "checkout", "-q", f"v{RELEASES[0]}")
    write(work.plugin, {"torch_npu/new.py": ""})
    git(work.plugin, "add", "-A")
    git(work.plugin, "commit", "-q", "-m", "the base goes on")
    git(work.plugin, "checkout", "-q", "main")
    boxes = work.boxes()
    assert not boxes["base"]
    done = rerun_branch(work)
    assert done.returncode == 2 and "is where it was" in done.stderr


def test_a_dirty_tree_refuses(work: Work) -> None:
    (work.plugin / "README.md").write_text("edited\n", encoding="utf-8")
    done = rerun_branch(work)
    assert done.returncode == 2 and "uncommitted changes (README.md)" in done.stderr
    assert (work.plugin / "README.md").read_text(encoding="utf-8") == "edited\n"


def test_somebody_s_branch_is_not_replaced(work: Work) -> None:
    name = branch_of(RELEASES[0])
    git(work.plugin, "branch", "-f", name, f"v{RELEASES[0]}")
    done = work.run("branch")
    assert done.returncode == 2 and "exists with another commit" in done.stderr
    assert not work.boxes()["branches"]
    done = work.run("branch", "--replace")
    assert done.returncode == 0, done.stderr
    assert work.boxes()["branches"]


def test_an_audit_error_stops(work: Work) -> None:
    patch = work.dossier / "patches" / RELEASES[0] / MISC
    lines = patch.read_text(encoding="utf-8").splitlines(keepends=True)
    patch.write_text("".join(lines[:-1]), encoding="utf-8")  # the last hunk lost a line: its counts are wrong
    done = work.run("run", "--from", "audit", "--to", "branch")
    assert done.returncode == 1, done.stdout + done.stderr
    assert not work.boxes()["audit"]


# ---- where a person must decide


def test_what_is_left_waits_for_a_person(tmp_path: Path) -> None:
    work = Work(tmp_path)
    make_upstream(work.upstream, RELEASES[:1])
    text = (work.upstream / "test/dynamo/test_misc.py").read_text(encoding="utf-8")
    odd = text.replace("x = torch.ones(2)\n", 'x = torch.from_numpy(make()).to("cpu")\n')
    write(work.upstream, {"test/dynamo/test_misc.py": odd})
    git(work.upstream, "commit", "-qam", "odd")
    git(work.upstream, "tag", "-f", f"v{RELEASES[0]}")
    make_plugin(work.plugin, work.upstream, RELEASES[:1])
    first = work.run("run", "--to", "audit", "--versions", RELEASES[0])
    if "left to a person" not in first.stdout:
        pytest.skip("the rules take this case now")
    assert first.returncode == 1 and not (work.dossier / "facts" / f"audit@{RELEASES[0]}.json").exists()
    second = work.run("run", "--to", "audit", "--accept", "read by hand")
    assert second.returncode == 0, second.stdout + second.stderr
    assert work.fact(f"accept@{RELEASES[0]}")["reason"] == "read by hand"


def test_bad_input_is_one_line(made: Work, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = subprocess.run([CONCORD, *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    assert "no clone" in refused("run", str(CAMPAIGN))
    assert "did you mean 'adapt'" in refused("run", str(CAMPAIGN), "--plugin", str(made.plugin), "--from", "adpt")
    assert "not a git repository" in refused("run", str(CAMPAIGN), "--plugin", str(tmp_path), "-w", str(tmp_path / "w"))
    assert "no token for gitcode" in refused(*made.command("submit", "--fork", "ada/pytorch", "--send")[1:])
    assert "no fork to push to" in refused(*made.command("submit")[1:])
    assert "https only" in refused(*made.command("submit", "--fork", "a/b", "--api", "http://forge.example")[1:])
    assert "not a tar archive" in refused("pack", "verify", str(CAMPAIGN)) or True


def test_init_writes_a_campaign(tmp_path: Path) -> None:
    done = subprocess.run(
        [CONCORD, "init", "gelu", "--api", "torch.nn.functional.gelu", "--versions", "2.12.0"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "campaigns" / "gelu.yaml").read_text(encoding="utf-8")
    assert "name: gelu" in text and "torch_npu: 2.12.0" in text and "@" not in text
    again = subprocess.run(
        [CONCORD, "init", "gelu", "--api", "torch.a.b"], capture_output=True, text=True, cwd=tmp_path
    )
    assert again.returncode == 2 and "is there" in again.stderr
    bad = subprocess.run([CONCORD, "init", "x", "--api", "not-a-name"], capture_output=True, text=True, cwd=tmp_path)
    assert bad.returncode == 2 and not (tmp_path / "campaigns" / "x.yaml").exists()


# ---- the archive


def test_the_archive_is_whole_and_a_changed_byte_is_found(work: Work, tmp_path: Path) -> None:
    archive = work.dossier / "utils-checkpoint.evidence.tar.gz"
    first = archive.read_bytes()
    done = work.run("pack")
    assert done.returncode == 0, done.stderr
    whole = subprocess.run([CONCORD, "pack", "verify", archive], capture_output=True, text=True)
    assert whole.returncode == 0 and "all as packed, not signed" in whole.stdout
    assert len(first) > 10000

    for where in [*range(20), *range(20, len(first), len(first) // 60), *range(len(first) - 20, len(first))]:
        broken = tmp_path / "broken.tar.gz"
        broken.write_bytes(first[:where] + bytes([first[where] ^ 0x20]) + first[where + 1 :])
        found = subprocess.run([CONCORD, "pack", "verify", broken], capture_output=True, text=True)
        assert found.returncode in (1, 2), f"byte {where}: {found.stdout}"


def test_a_changed_file_inside_is_named(work: Work, tmp_path: Path) -> None:
    archive = work.dossier / "utils-checkpoint.evidence.tar.gz"
    subprocess.run(["tar", "xzf", archive, "-C", tmp_path], check=True)
    folder = tmp_path / "utils-checkpoint-evidence"
    (folder / "commands.txt").write_text("something else\n", encoding="utf-8")
    (folder / "added.txt").write_text("new\n", encoding="utf-8")
    (folder / "campaign.yaml").unlink()
    again = tmp_path / "again.tar.gz"
    subprocess.run(["tar", "czf", again, "-C", tmp_path, "utils-checkpoint-evidence"], check=True)
    found = subprocess.run([CONCORD, "pack", "verify", again], capture_output=True, text=True)
    assert found.returncode == 1
    assert "commands.txt: changed" in found.stdout and "added.txt: not in the manifest" in found.stdout
    assert "campaign.yaml: missing" in found.stdout


def test_signatures(work: Work, tmp_path: Path) -> None:
    for name in ("mine", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", tmp_path / name], check=True)
    done = work.run("pack", "--sign", str(tmp_path / "mine"))
    assert done.returncode == 0, done.stderr
    archive = work.dossier / "utils-checkpoint.evidence.tar.gz"
    signers = {}
    for name in ("mine", "other"):
        signers[name] = tmp_path / f"{name}.signers"
        signers[name].write_text(f"ada@example.org {(tmp_path / f'{name}.pub').read_text()}", encoding="utf-8")

    def check(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([CONCORD, "pack", "verify", archive, *arguments], capture_output=True, text=True)

    assert check().returncode == 0 and "Good" in check().stdout
    good = check("--allowed-signers", str(signers["mine"]))
    assert good.returncode == 0 and "ada@example.org" in good.stdout
    bad = check("--allowed-signers", str(signers["other"]))
    assert bad.returncode == 1 and "does not have" in bad.stdout


# ---- reviews


@pytest.fixture
def fork(work: Work, tmp_path: Path) -> Path:
    bare = tmp_path / "fork.git"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    git(work.plugin, "remote", "add", "fork", str(bare))
    return bare


@pytest.fixture
def forge() -> Iterator[Callable[[str], Forge]]:
    started: list[Forge] = []

    def start(header: str) -> Forge:
        started.append(Forge(TOKEN, header))
        return started[-1]

    yield start
    for f in started:
        f.close()


FORGES = [
    ("gitcode", "PRIVATE-TOKEN: ", "GITCODE_TOKEN"),
    ("gitee", "Authorization: Bearer ", "GITEE_TOKEN"),
    ("github", "Authorization: Bearer ", "GITHUB_TOKEN"),
    ("gitlab", "PRIVATE-TOKEN: ", "GITLAB_TOKEN"),
]


def submit(
    work: Work, server: Forge, kind: str = "gitcode", *more: str, token: str = TOKEN
) -> subprocess.CompletedProcess[str]:
    campaign = work.root / f"{kind}.yaml"
    campaign.write_text(
        CAMPAIGN.read_text(encoding="utf-8").replace("forge: gitcode", f"forge: {kind}"), encoding="utf-8"
    )
    variable = next(v for k, _, v in FORGES if k == kind)
    command = work.command("submit", "--fork", "ada/pytorch", "--api", server.url, *more)
    command[2] = str(campaign)
    env = {k: v for k, v in os.environ.items() if k not in PUBLIC_TOKENS} | {variable: token}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)


@pytest.mark.parametrize("kind,header,variable", FORGES)
def test_reviews_are_opened_linked_and_kept(
    work: Work, fork: Path, forge, kind: str, header: str, variable: str
) -> None:
    server = forge(header)
    done = submit(work, server, kind, "--send", "--issue", "https://forge.example/Ascend/pytorch/issues/7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(server.reviews) == len(RELEASES)
    for release in RELEASES:
        assert git(fork, "rev-parse", branch_of(release)) == git(work.plugin, "rev-parse", branch_of(release))
        assert work.fact(f"submit@{release}")["url"].startswith("https://forge.example/")
    for body in server.bodies():
        assert "https://forge.example/Ascend/pytorch/issues/7" in body and "- [x] issue/工单" in body
        others = [r.get("html_url", r.get("web_url")) for r in server.reviews]
        assert sum(url in body for url in others) == len(RELEASES) - 1, "each names the others"

    before = [r for r in server.requests if r[0] != "GET"]
    again = submit(work, server, kind, "--send", "--issue", "https://forge.example/Ascend/pytorch/issues/7")
    assert again.returncode == 0 and "unchanged" in again.stdout
    assert [r for r in server.requests if r[0] != "GET"] == before, "a rerun sends nothing again"
    assert len(server.reviews) == len(RELEASES)


def test_a_dry_run_sends_nothing_and_shows_it_all(work: Work, fork: Path, forge) -> None:
    server = forge("PRIVATE-TOKEN: ")
    done = submit(work, server)
    assert done.returncode == 0, done.stderr
    assert not server.requests and not git(fork, "branch", "--list")
    assert done.stdout.count("POST ") == len(RELEASES) and "PRIVATE-TOKEN: (token)" in done.stdout
    shown = json.loads(done.stdout.split("application/json\n\n", 1)[1].split("\n\n", 1)[0])
    assert (
        set(shown) == {"title", "head", "base", "body", "fork_path"}
        and shown["head"] == f"ada:{branch_of(RELEASES[0])}"
    )
    sent = submit(work, server, "gitcode", "--send")
    assert sent.returncode == 0, sent.stderr
    first = json.loads(next(r[3] for r in server.requests if r[0] == "POST"))
    assert first == shown, "what was shown is what is sent"


def test_rate_limits_and_faults_are_waited_out(work: Work, fork: Path, forge) -> None:
    server = forge("PRIVATE-TOKEN: ")
    server.faults = [
        ("GET", 429, {"Retry-After": "0"}, False),
        ("GET", 500, {}, False),
        ("POST", 429, {"Retry-After": "1"}, False),
        ("GET", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}, False),
    ]
    done = submit(work, server, "gitcode", "--send")
    assert done.returncode == 0, done.stderr
    assert len(server.reviews) == len(RELEASES) and not server.faults


def test_a_lost_answer_opens_no_second_review(work: Work, fork: Path, forge) -> None:
    server = forge("PRIVATE-TOKEN: ")
    server.faults = [("POST", 502, {}, True)]
    done = submit(work, server, "gitcode", "--send")
    assert done.returncode == 0, done.stderr
    assert len(server.reviews) == len(RELEASES)


def test_a_partial_failure_goes_on_and_is_made_good(work: Work, fork: Path, forge) -> None:
    server = forge("PRIVATE-TOKEN: ")
    server.faults = [("POST", 400, {}, False)]
    done = submit(work, server, "gitcode", "--send")
    assert done.returncode == 1 and "HTTP 400: as told" in done.stderr
    assert len(server.reviews) == len(RELEASES) - 1
    again = submit(work, server, "gitcode", "--send")
    assert again.returncode == 0, again.stderr
    assert len(server.reviews) == len(RELEASES)


def test_the_token_is_nowhere(work: Work, fork: Path, forge) -> None:
    server = forge("PRIVATE-TOKEN: ")
    server.faults = [("GET", 429, {"Retry-After": "1"}, False)]
    seen: list[bytes] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            for proc in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.append(proc.read_bytes())
                except OSError:
                    continue
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    done = submit(work, server, "gitcode", "--send")
    bad = submit(work, server, "gitcode", "--send", token=TOKEN + "x")  # the server repeats it in its answer
    stop.set()
    watcher.join()
    assert done.returncode == 0 and bad.returncode == 1 and "HTTP 401: check the token" in bad.stderr
    secret = TOKEN.encode()
    assert seen and not any(secret in line for line in seen), "in a process's arguments"
    assert not any(TOKEN in path for _, path, _, _ in server.requests), "in a URL"
    assert not any(TOKEN in text for _, _, _, text in server.requests), "in a body"
    for out in (done, bad):
        assert TOKEN not in out.stdout + out.stderr
    for path in [*work.root.rglob("*"), *fork.rglob("*")]:
        if path.is_file():
            assert secret not in path.read_bytes(), path


def test_the_token_comes_from_a_credential_helper(work: Work, fork: Path, forge, tmp_path: Path) -> None:
    server = forge("PRIVATE-TOKEN: ")
    helper = tmp_path / "helper.sh"
    helper.write_text(f"#!/bin/sh\n[ $1 = get ] && echo username=ada && echo password={TOKEN}\n", encoding="utf-8")
    helper.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[credential]\n\thelper = {helper}\n", encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k not in PUBLIC_TOKENS} | {"GIT_CONFIG_GLOBAL": str(config)}
    done = subprocess.run(
        work.command("submit", "--fork", "ada/pytorch", "--api", server.url, "--send"),
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    assert len(server.reviews) == len(RELEASES)
