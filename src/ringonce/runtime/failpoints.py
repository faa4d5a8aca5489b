"""Places by name at which a test may have the process killed, the way a power cut would: at once and without a word.

They are always there and do nothing, unless `RINGONCE_CRASH_AT` names one (`after_send`, or `after_send:3` for the
third time), which is refused unless `RINGONCE_TESTING=1` says that nothing is at stake. The windows of one delivery are
between them::

    before_send · (A) · the call · after_send · (B) · the row · after_record · (C) · before_commit · the offset
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

CRASH_AT: Final = "RINGONCE_CRASH_AT"
TESTING: Final = "RINGONCE_TESTING"


class Point(StrEnum):
    """A failpoint's name."""

    BEFORE_SEND = "before_send"
    """right before a call to the provider"""
    AFTER_SEND = "after_send"
    """the provider's answer, or its absence, is known and nothing is written"""
    AFTER_RECORD = "after_record"
    """a batch of rows is committed, and no record of it is marked as finished"""
    BEFORE_COMMIT = "before_commit"
    """offsets are about to be committed"""
    AFTER_PRODUCE = "after_produce"
    """the router's copy is acknowledged, and its offset is not committed"""
    AFTER_PUBLISH = "after_publish"
    """a replayed record is acknowledged, and the replay's progress is not committed"""


class Failpoints:
    """Counts the hits of one point and kills the process at the `nth`; without a point it does nothing."""

    __slots__ = ("_left", "_point")

    def __init__(self, point: Point | None = None, nth: int = 1) -> None:
        self._point = point
        self._left = nth

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Failpoints:
        """What the environment asks for.

        Raises:
            ConfigurationError: no such point, no such count, or nobody is testing.
        """
        text = environment.get(CRASH_AT, "")
        if not text:
            return cls()
        name, colon, count = text.partition(":")
        faults = []
        if name not in set(Point):
            faults.append(f"{CRASH_AT}: there is no failpoint {name!r}; there are {', '.join(Point)}")
        if colon and not (count.isascii() and count.isdigit() and int(count) > 0):
            faults.append(f"{CRASH_AT}: {text!r} does not say at which hit, counted from 1")
        if environment.get(TESTING) != "1":
            faults.append(f"{CRASH_AT} is for tests: it kills the process, and is refused unless {TESTING}=1")
        if faults:
            raise ConfigurationError(faults)
        return cls(Point(name), int(count) if colon else 1)

    def hit(self, point: Point) -> None:
        """The process is at `point`."""
        if point is not self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
