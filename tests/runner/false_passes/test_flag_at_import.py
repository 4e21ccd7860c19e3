"""A class that a flag, computed at import, takes away."""

import unittest

HAVE_DEVICE = False


@unittest.skipIf(not HAVE_DEVICE, "needs a device")
class TestOnDevice(unittest.TestCase):
    def test_one(self):
        pass

    def test_two(self):
        pass
