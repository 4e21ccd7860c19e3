"""Entry point of a trace: runs the tests of one file and records which APIs each calls. See concord_harness.trace."""

from concord_harness.trace.run import main

if __name__ == "__main__":
    raise SystemExit(main())
