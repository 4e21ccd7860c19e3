"""Entry point of a worker: runs inside a release's environment and takes its orders from concord on standard input."""

from concord_harness.server import main

if __name__ == "__main__":
    raise SystemExit(main())
