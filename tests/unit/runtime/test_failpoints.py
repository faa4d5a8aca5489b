"""Crashes on demand: only where a test asks for one, and exactly there."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import pytest

from ringonce.errors import ConfigurationError
from ringonce.runtime.failpoints import Failpoints, Point

WALK: Final = """
import os
from ringonce.runtime.failpoints import Failpoints, Point
failpoints = Failpoints.from_environment(os.environ)
for number in range(1, 5):
    failpoints.hit(Point.BEFORE_SEND)
    failpoints.hit(Point.AFTER_SEND)
    print(number, flush=True)
"""


def walk(**environment: str) -> tuple[int, str]:
    """A process that passes two of the points four times: how it ended, and what it has written."""
    run = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, env=environment, check=False)
    return run.returncode, run.stdout


def test_without_a_word_nothing_happens() -> None:
    """The points are always passed."""
    assert walk() == (0, "1\n2\n3\n4\n")


def test_the_process_dies_at_the_hit_that_was_named() -> None:
    """By SIGKILL: nothing is flushed, nobody is told."""
    assert walk(RINGONCE_CRASH_AT="after_send:3", RINGONCE_TESTING="1") == (-signal.SIGKILL, "1\n2\n")
    assert walk(RINGONCE_CRASH_AT="before_send", RINGONCE_TESTING="1") == (-signal.SIGKILL, "")


def test_points_that_are_not_passed_change_nothing() -> None:
    """Nor does a count that is not reached."""
    assert walk(RINGONCE_CRASH_AT="after_record", RINGONCE_TESTING="1")[0] == 0
    assert walk(RINGONCE_CRASH_AT="after_send:5", RINGONCE_TESTING="1")[0] == 0


@pytest.mark.parametrize("testing", ["", "0", "yes"])
def test_who_is_not_being_tested_refuses_to_crash(testing: str) -> None:
    """A variable that was left behind must not kill anything in production."""
    with pytest.raises(ConfigurationError, match="refused unless RINGONCE_TESTING=1"):
        Failpoints.from_environment({"RINGONCE_CRASH_AT": "after_send", "RINGONCE_TESTING": testing})


@pytest.mark.parametrize("text", ["nowhere", "after_send:0", "after_send:", "after_send:-1", "after_send:two", ":3"])
def test_what_cannot_be_meant_is_named(text: str) -> None:
    """Before anything is consumed."""
    with pytest.raises(ConfigurationError, match="RINGONCE_CRASH_AT"):
        Failpoints.from_environment({"RINGONCE_CRASH_AT": text, "RINGONCE_TESTING": "1"})


def test_every_window_has_its_points() -> None:
    """The names are a contract with the suites that use them."""
    assert list(Point) == [
        "before_send",
        "after_send",
        "after_record",
        "before_commit",
        "after_produce",
        "after_publish",
    ]
