"""concord verify end to end on one release: what passes, every kind of breakage, interruption, the vendor's layout.

Needs an environment for the release (made when it can be); CONCORD names the program, build/bin/concord otherwise.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONCORD = Path(os.environ.get("CONCORD", ROOT / "build" / "bin" / "concord")).resolve()
RELEASE = os.environ.get("CONCORD_TEST_RELEASE", "2.12.0")
CAMPAIGN = ROOT / "campaigns" / "utils-checkpoint.yaml"

LIKE = "torch.overrides.is_tensor_like"
CHECKPOINT = "torch.utils.checkpoint.checkpoint"
SEQUENTIAL = "torch.utils.checkpoint.checkpoint_sequential"


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    made = subprocess.run([CONCORD, "env", "create", RELEASE], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no environment for {RELEASE}: {made.stderr.strip()}", allow_module_level=True)


@dataclass
class Outcome:
    status: int
    out: str
    err: str
    report: dict[str, Any]

    def verdicts(self) -> dict[str, str]:
        return {f"{c['api'].rsplit('.', 1)[1]}::{c['case']}": c["verdict"] for c in self.report["cases"]}

    def reason(self, case: str) -> str:
        return next(c["reason"] for c in self.report["cases"] if c["case"] == case)


# What other steps of a campaign find out (concord run): a lone verify has no facts for these boxes.
OTHER_STEPS = {"journal", "covered", "left", "patches", "audit", "suite", "base", "docs", "branches"}


class Verify:
    """One journal; each call runs verify on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal, self.json = folder, folder / "journal.db", folder / "report.json"

    def command(self, *arguments: str) -> list[str]:
        where = ["--journal", str(self.journal), "--json", str(self.json)]
        return [str(CONCORD), "verify", str(CAMPAIGN), "--versions", RELEASE, *where, *arguments]

    def run(self, *arguments: str, **variables: str) -> Outcome:
        self.json.unlink(missing_ok=True)
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, env={**os.environ, **variables}, timeout=280
        )
        report = json.loads(self.json.read_text(encoding="utf-8")) if self.json.exists() else {}
        return Outcome(done.returncode, done.stdout, done.stderr, report)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(self.command(*arguments), text=True, env={**os.environ, **variables}, **quiet)

    def wait_for(self, case: str, state: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.journal.exists():
                with sqlite3.connect(self.journal, timeout=10) as db:
                    try:
                        row = db.execute("SELECT state FROM cases WHERE name=? ORDER BY id DESC", (case,)).fetchone()
                    except sqlite3.OperationalError:
                        row = None
                if row and row[0] == state:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{case} was not {state} within {seconds} s")


@pytest.fixture
def verify(tmp_path: Path) -> Iterator[Verify]:
    before = orphans()
    yield Verify(tmp_path)
    assert orphans() <= before, "a worker was left behind"


def orphans() -> set[int]:
    """Harness processes whose concord is gone."""
    found = set()
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((proc / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
            if parent == 1 and str(ROOT / "harness" / "serve.py").encode() in (proc / "cmdline").read_bytes():
                found.add(int(proc.name))
        except OSError:
            continue
    return found


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def test_passes_with_proof_and_reports(verify: Verify, tmp_path: Path) -> None:
    done = verify.run("--case", "view,reentrant,segments_non_reentrant", "--device", "software")
    assert (done.status, done.report["summary"]) == (0, {"cells": 3, "passed": 3, "ok": True}), done.err
    assert "3 of 3 cells PASSED: software device" in done.out and "not hardware" in done.out
    for case in done.report["cases"]:
        proof = case["facts"]["result"]["proof"]
        assert case["device"] == "software" and case["launches"] > 0
        assert sum(proof["operators"].values()) == case["launches"]
        assert proof["fallbacks"] == [] and proof["memory_peak"] > 0
    unticked = {c["id"] for c in done.report["checklist"] if not c["ticked"]}
    assert unticked == OTHER_STEPS | {"hardware", "whole"}  # whole: three cases were chosen

    folder = tmp_path / "reports"
    written = subprocess.run(
        [CONCORD, "report", "--journal", verify.journal, "--out", folder], capture_output=True, text=True
    )
    assert written.returncode == 0, written.stderr
    names = {Path(line).name for line in written.stdout.split()}
    assert names == {p.name for p in folder.iterdir()}
    assert names >= {"report.zh.md", "report.en.md", "report.json", "junit.xml", "report.sarif"}
    assert "- [ ] 在真实硬件上执行" in (folder / "report.zh.md").read_text(encoding="utf-8")
    english = (folder / "report.en.md").read_text(encoding="utf-8")
    assert "They are not results from hardware." in english and "3 of 3 cells" in english
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["summary"]["ok"]


def test_every_breakage_is_named_and_alone(verify: Verify) -> None:
    """A wrong kernel, a crash, a hang and a case that stays on the CPU in one run; the other cases pass."""
    done = verify.run(
        *("--case", "view,tensor_lists,forward_count,nested_structures,non_tensor_arguments,segments_reentrant"),
        *("--timeout", "15"),
        SOFTNPU_FAULT="wrong:aclnnTanh,crash:aclnnRelu,hang:aclnnPowTensorScalar",
        CONCORD_FORCE_CPU="is_tensor_like::view",
    )
    assert done.status == 1
    assert done.verdicts() == {
        "is_tensor_like::view": "NO PROOF",
        "is_tensor_like::tensor_lists": "PASSED",
        "checkpoint::forward_count": "FAILED",
        "checkpoint::nested_structures": "PASSED",
        "checkpoint::non_tensor_arguments": "TIMEOUT",
        "checkpoint_sequential::forward_count": "FAILED",
        "checkpoint_sequential::segments_reentrant": "CRASHED",
    }
    assert "elements differ" in done.reason("forward_count")
    assert done.reason("segments_reentrant").startswith("SIGSEGV in phase 'device'")
    assert "non_tensor_arguments" in next(
        c["stack"] for c in done.report["cases"] if c["case"] == "non_tensor_arguments"
    )
    assert "File" in done.reason("non_tensor_arguments")
    for text in ("NO PROOF", "FAILED", "CRASHED", "TIMEOUT", "0 of 3 cells PASSED"):
        assert text in done.out


def test_killed_worker_costs_its_case_only(verify: Verify) -> None:
    process = verify.start(
        *("--case", "non_tensor_arguments,nested_structures,view"), SOFTNPU_FAULT="hang:aclnnPowTensorScalar"
    )
    verify.wait_for("non_tensor_arguments", "running")
    (worker,) = children(process.pid)
    os.kill(worker, signal.SIGKILL)
    assert process.wait(120) == 1
    report = json.loads(verify.json.read_text(encoding="utf-8"))
    outcome = Outcome(1, "", "", report)
    assert outcome.verdicts() == {
        "is_tensor_like::view": "PASSED",
        "checkpoint::non_tensor_arguments": "CRASHED",
        "checkpoint::nested_structures": "PASSED",
    }
    assert "ended by SIGKILL during the case" in outcome.reason("non_tensor_arguments")


def test_resume_after_kill(verify: Verify) -> None:
    """kill -9 of concord in the middle of a case; --resume ends with the report of an undisturbed run."""
    cases = ("--case", "view,non_tensor_arguments,nested_structures")
    process = verify.start(*cases, SOFTNPU_FAULT="hang:aclnnPowTensorScalar")
    verify.wait_for("non_tensor_arguments", "running")
    (worker,) = children(process.pid)
    second = verify.run(*cases)
    assert second.status == 2 and "another run of this campaign" in second.err
    process.kill()
    process.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists(), "the worker outlived concord"
    resumed = verify.run("--resume")
    assert resumed.status == 0, resumed.err
    assert set(resumed.verdicts().values()) == {"PASSED"}
    attempts = {c["case"]: c["attempts"] for c in resumed.report["cases"]}
    assert attempts == {"view": 1, "non_tensor_arguments": 2, "nested_structures": 1}
    again = verify.run("--resume")
    assert (again.status, again.out) == (0, resumed.out), "a complete run resumes to its own report"
    undisturbed = verify.run(*cases)
    keep = ("release", "api", "case", "verdict", "reason", "launches", "device")
    pick = [[c[k] for k in keep] for c in resumed.report["cases"]]
    assert pick == [[c[k] for k in keep] for c in undisturbed.report["cases"]]
    refused = verify.run("--resume", "--case", "view")
    assert refused.status == 2 and "give the same selection or none" in refused.err


def test_vendor_layout(verify: Verify, tmp_path: Path) -> None:
    """A stand-in toolkit: its own set_env.sh points at softnpu's libraries; the label is what the probe found."""
    toolkit = tmp_path / "Ascend" / "ascend-toolkit"
    toolkit.mkdir(parents=True)
    real = CONCORD.parent.parent / "toolkit" / "set_env.sh"
    (toolkit / "set_env.sh").write_text(f'source "{real}"\n', encoding="utf-8")
    done = verify.run("--device", "hardware", "--toolkit", str(toolkit), "--case", "view")
    assert done.status == 0, done.err
    assert done.report["run"]["device_choice"] == "hardware"
    assert [r["device"]["kind"] for r in done.report["releases"]] == ["software"]
    assert "not hardware" in done.out


def test_no_board_no_toolkit(verify: Verify) -> None:
    if list(Path("/dev").glob("davinci[0-9]*")) or Path("/usr/local/Ascend").exists():
        pytest.skip("this machine has a board or a toolkit")
    done = verify.run("--device", "hardware", ASCEND_HOME_PATH="")
    assert done.status == 2 and len(done.err.strip().splitlines()) == 1
    assert "--device software" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--versions", "2.12.9"), "2.12.0"),
        (("--api", "torch.utils.checkpoint.chekpoint"), "torch.utils.checkpoint.checkpoint"),
        (("--case", "no_such_case"), "no case matches 'no_such_case'"),
        (("--device", "gpu"), "expected auto, hardware or software"),
        (("--toolkit", "/nowhere"), "/nowhere"),
        (("--resume",), "no run to resume"),
        (("--verison", "2.12.0"), "--versions"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    command = [CONCORD, "verify", CAMPAIGN, "--journal", tmp_path / "j.db", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert message in done.stderr
