"""Cannot be imported: its tests must not just be missing."""

import a_module_that_does_not_exist  # noqa: F401


def test_never_seen():
    pass
