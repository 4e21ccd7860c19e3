"""Repositories laid out like the plugin's and upstream's, made by the tests: five branches, documents in two places.

The texts are ours; only the layout (folders, headings of the review template, columns of the documents) is public.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

RELEASES = ("2.7.1", "2.9.0", "2.10.0", "2.11.0", "2.12.0")
APIS = (
    "torch.overrides.is_tensor_like",
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
)
AUTOGRAD = "test_upstream/test/test_autograd.py.patch"
MISC = "test_upstream/test/dynamo/test_misc.py.patch"
TEMPLATE = ".gitcode/PULL_REQUEST_TEMPLATE.md"
WHO = {
    "GIT_AUTHOR_NAME": "Base",
    "GIT_AUTHOR_EMAIL": "base@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_NAME": "Base",
    "GIT_COMMITTER_EMAIL": "base@example.org",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}

AUTOGRAD_TEXT = """\
import torch
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class TestAutograd(TestCase):
    def test_checkpoint_keeps_gradient(self):
        x = torch.randn(4, 8, requires_grad=True)
        y = checkpoint(torch.sin, x, use_reentrant=False)
        y.sum().backward()
        self.assertEqual(x.grad, x.detach().cos())

    def test_checkpoint_of_other_values(self):
        weight = torch.ones(3)
        out = checkpoint(lambda a: a * 2, weight, use_reentrant=True)
        self.assertEqual(out, torch.full((3,), 2.0))

    def test_unrelated(self):
        self.assertEqual(torch.zeros(2).sum().item(), 0)


class TestSequential(TestCase):
    def test_checkpoint_sequential_equals_plain(self):
        model = torch.nn.Sequential(torch.nn.Linear(10, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
        x = torch.ones(10)
        plain = model(x)
        split = checkpoint_sequential(model, 2, x, use_reentrant=False)
        self.assertEqual(plain, split)


if __name__ == "__main__":
    run_tests()
"""

MISC_TEXT = """\
import torch
from torch.overrides import is_tensor_like
from torch.testing._internal.common_utils import TestCase, run_tests


class MiscTests(TestCase):
    def test_is_tensor_like(self):
        x = torch.ones(2)
        self.assertTrue(is_tensor_like(x * 2))
        self.assertFalse(is_tensor_like(3))


if __name__ == "__main__":
    run_tests()
"""

TEMPLATE_TEXT = """\
<!-- 模板日期：20260203 -->

# 【合入来源】
> 关联 issue

- [ ] 需求
- [ ] 问题单
- [ ] issue/工单
- [ ] 重构优化
- [ ] 资料更新

# 【修改方案】
> 说明如何修改

# 【资料变更】
> 是否涉及资料

# 【接口变更】
> 是否涉及接口

# 【功能验证】
> 如何验证

# 【CheckList】

- [ ] 代码注释完备，日志正确
- [ ] 返回值、空指针已校验
- [ ] PR标题使用类型标签
- [ ] CI 流水线通过
"""


def git(repo: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **WHO, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_upstream(root: Path, releases: tuple[str, ...] = RELEASES) -> Path:
    """A repository with a tag v<release> each; files differ a little from release to release."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    for release in releases:
        write(
            root,
            {
                "test/test_autograd.py": AUTOGRAD_TEXT.replace(
                    "class TestAutograd", f"# of {release}\nclass TestAutograd"
                ),
                "test/dynamo/test_misc.py": MISC_TEXT.replace("class MiscTests", f"# of {release}\nclass MiscTests"),
                "test/test_other.py": "import torch\n",
            },
        )
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"release {release}")
        git(root, "tag", f"v{release}")
    return root


def old_patch(upstream: Path, release: str) -> str:
    """What an earlier person adapted in test_autograd.py: a hunk that must be kept."""
    name = "test/test_autograd.py"
    path = upstream / name
    git(upstream, "checkout", "-q", f"v{release}")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("torch.zeros(2).sum()", "torch.zeros(2).npu().sum()"), encoding="utf-8")
    diff = git(upstream, "diff", "--full-index", "--abbrev=11", "--", name) + "\n"
    path.write_text(text, encoding="utf-8")
    git(upstream, "checkout", "-q", "main")
    return diff


def documents(release: str) -> dict[str, str]:
    dashed = release.replace(".", "-")
    rows = "".join(f"|{api}|是|-|\n" for api in APIS)
    table = f"|API名称|是否支持|限制与说明|\n|--|--|--|\n{rows}"
    if release in ("2.7.1", "2.9.0", "2.10.0"):
        return {f"docs/zh/native_apis/pytorch_{dashed}/torch.md": f"# torch\n\n{table}"}
    return {f"docs/zh/api/native_api/pytorch_{dashed}/torch.md": f"# torch\n\n{table}"}


def make_plugin(root: Path, upstream: Path, releases: tuple[str, ...] = RELEASES) -> Path:
    """A clone-like repository: one branch a release, checked out on main with a file of its own."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ada Example")
    git(root, "config", "user.email", "ada@example.org")
    write(root, {"README.md": "a plugin\n"})
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "begin")
    for release in releases:
        git(root, "checkout", "-q", "-b", f"v{release}", "main")
        write(root, {TEMPLATE: TEMPLATE_TEXT, "torch_npu/__init__.py": "", **documents(release)})
        if release != "2.9.0":
            write(root, {AUTOGRAD: old_patch(upstream, release)})
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"branch for {release}")
    git(root, "checkout", "-q", "main")
    return root
