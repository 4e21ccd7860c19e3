"""A file without a test: "Ran 0 tests, OK" is no success."""

HELPER = 1
