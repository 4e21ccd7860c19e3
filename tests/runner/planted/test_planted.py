"""Tests that misbehave, each in its own way, among ordinary ones. test_suite.py says what concord must make of each."""

import ctypes
import os
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize("number", range(10))
def test_ordinary(number):
    time.sleep(0.01)
    assert number >= 0


def test_segfault():
    ctypes.string_at(0)


def test_abort():
    os.abort()


def test_loop_in_python():
    while True:
        pass


def test_loop_in_c():
    ctypes.CDLL(None).pause()  # the interpreter never gets control back


def test_fork_bomb():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def test_much_output():
    block = b"x" * (1 << 20)
    for _ in range(1024):
        os.write(1, block)


def test_memory_hog():
    hog = []
    for _ in range(64):
        hog.append(bytearray(64 << 20))
    raise SystemExit("not stopped")


def test_leaves_a_daemon():
    script = (
        "import os, time; os.setsid(); open(os.environ['PLANTED_PID'], 'w').write(str(os.getpid())); time.sleep(600)"
    )
    subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not os.path.exists(os.environ["PLANTED_PID"]) and time.monotonic() < end:
        time.sleep(0.02)
    assert os.path.exists(os.environ["PLANTED_PID"])


def test_flaky():
    """Fails the first time it runs, passes from then on."""
    path = os.environ["PLANTED_FLAKY"]
    first = not os.path.exists(path)
    open(path, "w").close()
    assert not first


def test_kills_its_parent():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(30)


def test_kills_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def test_exits():
    os._exit(0)


def test_system_exit():
    sys.exit(0)


def test_fails():
    assert 1 + 1 == 3


def test_skipped():
    pytest.skip("no such hardware here")


@pytest.mark.xfail(reason="known to fail")
def test_expected_to_fail():
    raise AssertionError


@pytest.mark.xfail(reason="was known to fail")
def test_unexpectedly_passes():
    pass


def test_last():
    pass
