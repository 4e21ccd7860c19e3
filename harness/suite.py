"""Entry point of a suite's warm process, and of a test that needs an interpreter of its own (--alone)."""

import sys

from concord_harness.suite import zygote

if __name__ == "__main__":
    raise SystemExit(zygote.main(sys.argv[1:]))
