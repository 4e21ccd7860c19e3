"""Tests of the launcher, softnpu-smi, the toolkit folder and the Python module acl.

usage: softnpu_tools.py BUILD
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop()) if len(sys.argv) > 1 else Path("build")
SOFTNPU = BUILD / "bin" / "softnpu"
SMI = BUILD / "bin" / "softnpu-smi"
QUIET = {k: v for k, v in os.environ.items() if not k.startswith(("SOFTNPU_", "ASCEND_"))}


def run(*command: object, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(c) for c in command], env={**QUIET, **more}, capture_output=True, text=True, check=False)


def on_device(code: str, *options: str, **more: str) -> subprocess.CompletedProcess:
    return run(SOFTNPU, "run", *options, "--", sys.executable, "-c", code, **more)


class Launcher(unittest.TestCase):
    def test_status_is_the_commands(self):
        self.assertEqual(run(SOFTNPU, "run", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run(SOFTNPU, "run", "sh", "-c", "exit 0").returncode, 0)

    def test_bad_input(self):
        for words in (
            [],
            ["fly"],
            ["run"],
            ["run", "--"],
            ["run", "--colour", "sh"],
            ["run", "--devices"],
            ["env", "x"],
        ):
            done = run(SOFTNPU, *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("softnpu", done.stderr)
        self.assertEqual(run(SOFTNPU, "run", "--", "/no/such/program").returncode, 127)
        done = on_device("import acl; acl.rt.get_device_count()", "--devices", "many")
        self.assertEqual(done.returncode, 2)
        self.assertIn("SOFTNPU_DEVICES=many", done.stderr)

    def test_environment(self):
        shell = f'eval "$({SOFTNPU} env --devices 3)"; echo "$SOFTNPU_DEVICES $ASCEND_HOME_PATH $LD_LIBRARY_PATH"'
        devices, home, path = run("sh", "-c", shell, LD_LIBRARY_PATH="/there before").stdout.strip().split(" ", 2)
        self.assertEqual(devices, "3")
        self.assertTrue(Path(home, "opp").is_dir())
        self.assertEqual(path, f"{home}/lib64:/there before")

    def test_set_env(self):
        script = f'. {BUILD}/toolkit/set_env.sh; echo "$ASCEND_HOME_PATH"; {sys.executable} -c "import acl"'
        done = run("bash", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(Path(done.stdout.strip()), (BUILD / "toolkit").resolve())
        self.assertIn("version=9.1.0", (BUILD / "toolkit" / "ascend_toolkit_install.info").read_text())

    def test_every_alias_reaches_the_device(self):
        for library in (BUILD / "toolkit" / "lib64").iterdir():
            code = f"import ctypes; ctypes.CDLL('{library.name}').aclrtGetSocName"
            self.assertEqual(on_device(code).returncode, 0, library)


class Smi(unittest.TestCase):
    def test_bad_settings_are_refused(self) -> None:
        for name, value in (("SOFTNPU_DEVICES", "99"), ("SOFTNPU_DEVICES", "two"), ("SOFTNPU_SOC", "Ascend1")):
            done = run(SMI, "info", **{name: value})
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"^softnpu-smi: {name}={value}: expected .*\n$")

    def test_shows_a_processs_memory(self):
        usage = str(BUILD / f"usage-{os.getpid()}")
        code = f"""
import acl, subprocess
acl.rt.set_device(0)
p, _ = acl.rt.malloc(100 << 20, 0)
print(subprocess.run(["{SMI}", "info", "--json"], capture_output=True, text=True).stdout)
"""
        try:
            device = json.loads(on_device(code, SOFTNPU_USAGE=usage).stdout)["devices"][0]
            self.assertEqual(device["used_mb"], 100)
            self.assertEqual(len(device["processes"]), 1)
            after = run(SMI, "info", SOFTNPU_USAGE=usage)
            self.assertIn("910B4", after.stdout)
            self.assertIn("No running processes", after.stdout)
        finally:
            Path(usage).unlink(missing_ok=True)
        self.assertEqual(run(SMI, "watch").returncode, 2)
        done = run(SMI, "info", "-t", "memory", "-i", "1", SOFTNPU_DEVICES="2", SOFTNPU_SOC="Ascend910B1")
        self.assertIn("HBM Capacity(MB)               : 65536", done.stdout)
        self.assertEqual(run(SMI, "info", "-t", "memory", "-i", "1").returncode, 2)
        self.assertIn("Total Count                    : 3", run(SMI, "info", "-l", SOFTNPU_DEVICES="3").stdout)


class Devices(unittest.TestCase):
    CODE = "import acl; print(acl.rt.get_device_count()[0], acl.get_soc_name())"

    def test_visible_devices_and_soc(self):
        some = {"SOFTNPU_DEVICES": "4", "ASCEND_RT_VISIBLE_DEVICES": "1,3"}
        self.assertEqual(on_device(self.CODE, **some).stdout, "2 Ascend910B4\n")
        self.assertEqual(on_device(self.CODE, SOFTNPU_SOC="Ascend910_9391").stdout, "1 Ascend910_9391\n")
        cut = {"SOFTNPU_DEVICES": "4", "ASCEND_RT_VISIBLE_DEVICES": "0,2,9,1"}  # read up to what is no device
        self.assertEqual(on_device(self.CODE, **cut).stdout, "2 Ascend910B4\n")
        for wrong in ({"ASCEND_RT_VISIBLE_DEVICES": "0,0"}, {"SOFTNPU_SOC": "Ascend1"}, {"SOFTNPU_CHECK": "nothing"}):
            done = on_device(
                "import acl; acl.rt.set_device(0); acl.rt.malloc(8, 0); acl.rt.synchronize_device()", **wrong
            )
            self.assertIn(next(iter(wrong)), done.stderr)


class Log(unittest.TestCase):
    CODE = "import acl; acl.rt.malloc(8, 0)"  # without a context

    def test_log_goes_where_the_vendors_variables_say(self):
        self.assertEqual(on_device(self.CODE).stderr, "")
        self.assertIn("[ERROR] RUNTIME", on_device(self.CODE, ASCEND_SLOG_PRINT_TO_STDOUT="1").stderr)
        quiet = {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "4"}
        self.assertEqual(on_device(self.CODE, **quiet).stderr, "")
        with tempfile.TemporaryDirectory() as folder:
            on_device(self.CODE, ASCEND_PROCESS_LOG_PATH=folder)
            (log,) = Path(folder, "debug", "plog").glob("plog-*.log")
            self.assertIn("no context", log.read_text())


class Example(unittest.TestCase):
    def test_builds_with_the_public_headers_alone_and_runs(self):
        source, toolkit = Path(__file__).resolve().parent.parent / "examples" / "vector_add.c", BUILD / "toolkit"
        with tempfile.TemporaryDirectory() as scratch:
            program = Path(scratch, "vector_add")
            flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", toolkit / "include", "-L", toolkit / "devlib"]
            done = run("cc", *flags, source, "-o", program, "-lascendcl", "-lopapi")
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run(SOFTNPU, "run", "--", program)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("1000 elements are right", done.stdout)


class PyAcl(unittest.TestCase):
    def check(self, code: str):
        done = on_device("import acl\n" + code)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_names(self):
        self.check("assert acl.get_soc_name() == 'Ascend910B4'\nassert acl.rt.get_device_count() == (1, 0)")

    def test_round_trip(self):
        self.check("""
assert acl.init() == 0 and acl.rt.set_device(0) == 0 and acl.rt.get_device() == (0, 0)
stream, code = acl.rt.create_stream()
assert code == 0 and stream
device, code = acl.rt.malloc(6, 0)
text = b"abcdef"
assert acl.rt.memcpy_async(device, 6, acl.util.bytes_to_ptr(text), 6, 1, stream) == 0
assert acl.rt.memset_async(device, 6, ord("x"), 2, stream) == 0
assert acl.rt.synchronize_stream(stream) == 0
host, code = acl.rt.malloc_host(6)
assert acl.rt.memcpy(host, 6, device, 6, 2) == 0
assert acl.util.ptr_to_bytes(host, 6) == b"xxcdef"
assert acl.rt.memcpy(host, 6, device, 6, 1) == 107000 and "EE9999" in acl.get_recent_err_msg()
assert acl.rt.free(device) == 0 and acl.rt.free(device) == 107000 and acl.rt.free_host(host) == 0
assert acl.rt.destroy_stream(stream) == 0 and acl.rt.reset_device(0) == 0 and acl.finalize() == 0
""")

    def test_events_and_contexts(self):
        self.check("""
context, code = acl.rt.create_context(0)
assert acl.rt.get_context() == (context, 0)
first, _ = acl.rt.create_event()
second, _ = acl.rt.create_event_with_flag(8)
assert acl.rt.query_event_status(first) == (0, 0)
assert acl.rt.record_event(first, 0) == 0 and acl.rt.record_event(second, 0) == 0
assert acl.rt.query_event_status(second) == (1, 0)
ms, code = acl.rt.event_elapsed_time(first, second)
assert code == 0 and ms >= 0
assert acl.rt.destroy_event(first) == 0 and acl.rt.destroy_context(context) == 0
""")

    def test_bad_arguments_raise(self):
        self.check("""
for wrong in (lambda: acl.rt.malloc(-1, 0), lambda: acl.rt.malloc("8", 0), lambda: acl.rt.set_device(),
              lambda: acl.util.bytes_to_ptr("text")):
    try:
        wrong()
    except (TypeError, OverflowError):
        continue
    raise AssertionError("accepted")
assert acl.rt.set_device(7) == 107001
assert acl.rt.malloc(8, 0) == (0, 107002)
""")


if __name__ == "__main__":
    unittest.main()
