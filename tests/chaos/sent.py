"""What was put into the entry topic, and what the broker said of it: the one side of every invariant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What became of a produce."""

    OK = "ok"
    FAIL = "fail"
    """refused for good: it must not appear"""
    INFO = "info"
    """the broker never answered: it may appear or not"""


class Kind(StrEnum):
    """What a record is meant to be."""

    PLAIN = "plain"
    DUPLICATE = "duplicate"
    """the same id and body once more"""
    TWIN = "twin"
    """an id that was there before, with another body"""
    POISON = "poison"
    """nothing that can be delivered; followed by its origin where it has no valid id"""
    EXPIRED = "expired"
    """too late when it is produced"""
    FLEETING = "fleeting"
    """it expires while it waits: in a retry stage, or behind an open breaker"""


@dataclass(frozen=True, slots=True)
class Sent:
    """One record.

    `key` is the root under which it must end: its id, or the synthetic one of a record without a valid id, known once
    the broker has said where it lies. Times are seconds since 1970.
    """

    key: str
    channel: str
    kind: Kind
    fate: Fate
    topic: str
    partition: int
    offset: int
    """-1 where the broker has not said."""
    digest: str
    """the first 64 bits of the value's SHA-256, in hex"""
    at: float
    """when it was handed to the producer"""
