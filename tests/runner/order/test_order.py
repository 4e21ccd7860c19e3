"""Tests that depend on what ran before them in the same process."""

import sys

STATE = sys.modules["conftest"].STATE


def test_a():
    pass


def test_pollutes_one():
    STATE["dirty"].add(1)


def test_b():
    pass


def test_pollutes_two():
    STATE["dirty"].add(2)


def test_c():
    pass


def test_victim():
    """Fails only after both of them."""
    assert STATE["dirty"] != {1, 2}


def test_poisons_the_device():
    STATE["broken"] = True


def test_uses_the_device():
    assert not STATE["broken"]


def test_uses_it_too():
    assert not STATE["broken"]
