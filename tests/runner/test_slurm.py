"""--executor slurm on a cluster of the machine's own: munged, slurmctld and two slurmd, all started and ended here.

One node is drained half-way and one task is cancelled; the merged report must be the one of a local run.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONCORD = Path(os.environ.get("CONCORD", ROOT / "build" / "bin" / "concord")).resolve()
SITE = Path(pytest.__file__).resolve().parents[1]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")

CONF = """
ClusterName=concord
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={work}/munge.sock
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool-%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd-%n.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def tool(*command: str, **options: object) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options).stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    missing = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Debian's slurm-wlm and munge: {', '.join(missing) or 'not root'}")
    work = Path("/tmp") / f"concord-slurm-{os.getpid()}"  # short: sockets have short names
    work.mkdir()
    (work / "state").mkdir()
    (work / "key").write_bytes(secrets.token_bytes(1024))
    (work / "key").chmod(0o400)
    (work / "slurm.conf").write_text(CONF.format(host=socket.gethostname(), ports=free_ports(3), work=work))
    environ = {**os.environ, "SLURM_CONF": str(work / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    os.environ.update({"SLURM_CONF": environ["SLURM_CONF"], "PATH": environ["PATH"]})
    places = [
        f"--{name}={work}/munge.{end}" for name, end in (("socket", "sock"), ("pid-file", "pid"), ("seed-file", "seed"))
    ]
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={work}/key", f"--log-file={work}/munge.log", *places],
        ["slurmctld", "-D"],
        ["slurmd", "-D", "-N", "n1"],
        ["slurmd", "-D", "-N", "n2"],
    ]
    started = []
    try:
        for command in commands:
            log = open(work / f"{command[0]}-{len(started)}.out", "w")
            started.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
            time.sleep(1)
        end = time.monotonic() + 60
        while tool("sinfo", "-h", "-o", "%T").strip() not in ("idle", "idle\nidle") and time.monotonic() < end:
            time.sleep(0.5)
        states = tool("sinfo", "-h", "-N", "-o", "%N %T")
        assert states.split() == ["n1", "idle", "n2", "idle"], states + (work / "slurmctld.log").read_text()[-2000:]
        yield work
    finally:
        tool("scancel", "-u", "root")
        time.sleep(1)
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(work, ignore_errors=True)


def verdicts(path: Path) -> dict[str, tuple[str, str]]:
    return {c["name"]: (c["verdict"], c["reason"]) for c in json.loads(path.read_text())["cases"]}


def test_same_report_as_local(cluster: Path, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    for number in range(6):
        (suite / f"test_{number}.py").write_text(
            "import time, pytest\n\n\n@pytest.mark.parametrize('i', range(10))\ndef test_x(i):\n"
            "    time.sleep(0.4)\n    assert i != 4\n    if i == 5:\n        pytest.skip('five')\n"
        )
    environ = {**os.environ, "CONCORD_HOME": str(tmp_path / "home")}
    fixed = [str(CONCORD), "test", str(suite), "--python", sys.executable, "--site", str(SITE), "-j", "1"]
    local, merged = tmp_path / "local.json", tmp_path / "merged.json"
    first = [*fixed, "-q", "--journal", str(tmp_path / "local.db"), "--json", str(local)]
    assert subprocess.run(first, env=environ, stdout=subprocess.DEVNULL).returncode == 1
    where = ["--executor", "slurm", "--shards", "4", "--journal", str(tmp_path / "merged.db"), "--json", str(merged)]
    process = subprocess.Popen([*fixed, *where], env=environ, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + 90
    while tool("squeue", "-h", "-t", "R", "-o", "%N").split() != ["n1", "n2"] and time.monotonic() < end:
        if sorted(tool("squeue", "-h", "-t", "R", "-o", "%N").split()) == ["n1", "n2"]:
            break
        time.sleep(0.2)
    running = tool("squeue", "-h", "-t", "R", "-o", "%F_%K %N").split()
    assert len(running) == 4, running
    time.sleep(2)
    tool("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    on_second = running[running.index("n2") - 1]
    tool("scancel", on_second)
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 1, (out, errors)
    assert verdicts(merged) == verdicts(local)
    assert len(verdicts(merged)) == 60
    assert errors.count("job ") >= 2, errors  # what was cancelled was submitted again
    tool("scontrol", "update", "nodename=n1", "state=resume")
