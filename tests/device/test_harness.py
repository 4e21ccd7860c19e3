"""The harness by itself: what the server survives, what the comparison sees. Needs torch, no device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness"))

torch = pytest.importorskip("torch")


class Server:
    def __init__(self, *arguments: str, **environment: str) -> None:
        here = {
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "PYTHONPATH": str(Path(__file__).parent / "planted"),
            **environment,
        }
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "harness" / "serve.py"), "--plugin", "", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **here},
        )
        self.hello = self.read()["hello"]

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline() or "{}")

    def order(self, name: str, timeout: float = 20) -> None:
        assert self.process.stdin
        order = {"run": name, "case": f"planted::{name}", "device": "cpu", "timeout": timeout, "tolerances": {}}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        assert self.read()["start"] == name

    def run(self, name: str, timeout: float = 20) -> dict[str, Any]:
        self.order(name, timeout)
        done = self.read()
        assert done["done"] == name
        return done

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture(scope="module")
def marker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted") / "marker"


@pytest.fixture(scope="module")
def server(marker: Path) -> Iterator[Server]:
    server = Server("--cases", "planted_cases", PLANTED_MARKER=str(marker))
    yield server
    server.close()


def test_good_case(server: Server) -> None:
    done = server.run("good")
    assert (done["exit"], done["signal"], done["phase"]) == (0, 0, "exit")
    assert done["result"]["compared"] == 1 and done["result"]["differences"] == []


@pytest.mark.parametrize(("name", "signal"), [("segfault", 11), ("abort", 6), ("kills_itself", 9)])
def test_signals_are_named(server: Server, name: str, signal: int) -> None:
    done = server.run(name)
    assert (done["signal"], done["timed_out"], done["phase"], done["result"]) == (signal, False, "cpu", None)
    if signal != 9:
        assert "planted_cases.py" in done["stack"]
    assert server.run("good")["exit"] == 0


@pytest.mark.parametrize("name", ["python_loop", "c_loop"])
def test_hang_says_where(server: Server, name: str) -> None:
    done = server.run(name, timeout=0.5)
    assert done["timed_out"] and done["signal"] == 9
    assert f"in {name}" in done["stack"]
    assert server.run("good")["exit"] == 0


def test_exit_status_and_output(server: Server) -> None:
    done = server.run("exits")
    assert (done["exit"], done["result"], done["output"]) == (3, None, "last words\n")


def test_output_is_bounded(server: Server) -> None:
    done = server.run("much_output")
    assert done["exit"] == 0 and len(done["output"]) < 300_000 and "bytes dropped" in done["output"]


def test_nothing_is_left_behind(server: Server, marker: Path) -> None:
    assert server.run("daemon_left")["leftovers"] >= 1
    time.sleep(2)
    assert not marker.exists()


def test_raises_skips_claims(server: Server) -> None:
    exception = server.run("raises")["result"]["cpu"]["exception"]
    assert (exception["type"], exception["message"]) == ("builtins.ValueError", "on DEVICE as well")
    assert server.run("skips")["result"]["skip"] == "not on this release"
    result = server.run("broken_claim")["result"]
    assert result["cpu"]["claims"] == ["one is two"] == result["device"]["claims"]


def test_difference_is_described(server: Server) -> None:
    differences = server.run("differs")["result"]["differences"]
    assert differences[0].startswith("x: 3 of 3 elements differ") and "CPU 1, device 2" in differences[0]
    assert differences[1] == "n: CPU 1, device 2"


def test_case_that_kills_the_server_dies_with_it(marker: Path) -> None:
    server = Server("--cases", "planted_cases", PLANTED_MARKER=str(marker))
    server.order("kills_server")
    assert server.read() == {}
    assert server.process.wait(20) == -9


def test_server_ends_with_its_orders(marker: Path) -> None:
    server = Server("--cases", "planted_cases", PLANTED_MARKER=str(marker))
    server.order("python_loop", timeout=600)
    server.close()


def test_catalogue_lists_exactly_the_cases() -> None:
    import concord_harness.cases  # noqa: F401 - registers them
    from concord_harness.case import CASES

    rows = [line.split("\t") for line in (ROOT / "harness" / "cases.tsv").read_text(encoding="utf-8").splitlines()]
    listed = {f"{row[0]}::{row[1]}" for row in rows if row[0].startswith("torch.")}
    assert listed == set(CASES)


def test_comparison() -> None:
    from concord_harness.compare import Comparison

    tolerances = {"float32": (1e-5, 1e-6), "float16": (1e-2, 1e-4)}

    def differences(cpu: Any, device: Any, precision: Any = None) -> list[str]:
        comparison = Comparison(torch.device("cpu"), tolerances)
        comparison.precision = precision
        comparison.observe({"x": cpu}, {"x": device})
        return comparison.differences

    one, nan = torch.ones(3), torch.tensor([1.0, float("nan"), float("inf")])
    assert differences(one, one * (1 + 5e-6)) == []
    assert "rtol 1e-05" in differences(one, one * 1.001)[0]
    assert differences(one, one * 1.001, torch.float16) == []
    assert "rtol 0.01" in differences(one, one * 1.1, torch.float16)[0]
    assert differences(nan, nan.clone()) == []
    assert "first at [1]" in differences(nan, torch.tensor([1.0, 2.0, float("inf")]))[0]
    assert "dtype" in differences(one, one.double())[0]
    assert "shape" in differences(one, torch.ones(4))[0]
    assert "requires_grad" in differences(one, torch.ones(3, requires_grad=True))[0]
    assert differences(torch.tensor([1, 2]), torch.tensor([1, 3]))[0].startswith(
        "x: 1 of 2 elements differ beyond rtol 0"
    )
    assert differences(one, None)[0] == "x: CPU tensor (3,), device None"
    assert differences([1, "a"], [1, "b"])[0] == "x: CPU [1, 'a'], device [1, 'b']"
    gone = Comparison(torch.device("cpu"), tolerances)
    gone.observe({"x": 1}, {"y": 1})
    assert gone.differences == ["x: missing on the device", "y: missing on the CPU"]


def test_fallback_is_named() -> None:
    from concord_harness.proof import fallbacks

    text = (
        "CAUTION: The operator 'aten::linalg_eig' is not currently supported on the NPU backend and will fall back to "
        "run on the CPU. This may have performance implications. (function npu_cpu_fallback)"
    )
    assert fallbacks(text + "\n" + text) == ["aten::linalg_eig"]
    assert fallbacks("nothing of the kind") == []
