"""Who a record is: its id, its root, and where it came in.

A valid id is 1 to 200 visible ASCII characters and does not begin like a replay's (``replay-<digits>-``). A record
without one gets a synthetic id, so that it too ends in exactly one row.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_REPLAYS: Final = 1000
"""A replay count above this is a header from outside that nobody believes."""

_VALID_ID = re.compile(r"(?!replay-[0-9]+-)[\x21-\x7e]{1,200}\Z")
_ORIGIN = re.compile(r"([a-zA-Z0-9._-]{1,249})/([0-9]{1,9})/([0-9]{1,18})/(-1|[0-9]{1,18})\Z")


def valid_id(text: str) -> bool:
    """Whether `text` may be a notification's id."""
    return _VALID_ID.match(text) is not None


class Origin(NamedTuple):
    """Where a record entered: the coordinates of the entry record, kept for ever."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    def __str__(self) -> str:
        return self.spell(*self)

    @staticmethod
    def spell(topic: str, partition: int, offset: int, timestamp_ms: int) -> str:
        """The header's form, for those who need no more of an origin than that."""
        return f"{topic}/{partition}/{offset}/{timestamp_ms}"

    @classmethod
    def parse(cls, text: str) -> Origin | None:
        """Read the header's form; None when it is not one."""
        match = _ORIGIN.match(text)
        if match is None:
            return None
        return cls(match[1], int(match[2]), int(match[3]), int(match[4]))


def synthetic_id(origin: Origin, value: bytes | None) -> str:
    """The id of a record that brought no valid one: its origin and 8 hex digits of the value's SHA-256."""
    return f"{origin}-{hashlib.sha256(value or b'').hexdigest()[:8]}"


class Identity(NamedTuple):
    """The id under which a record is recorded, and the root it shares with its replays.

    `replay` is the ordinal of the replay, 0 for an original. `key` is the Idempotency-Key.
    """

    id: str
    root: str
    replay: int = 0
    key: str = ""

    @property
    def replay_of(self) -> str | None:
        """The root's id for a replayed record, else None."""
        return self.root if self.replay else None


@dataclass(frozen=True, slots=True)
class ReplayClaim:
    """What a record's headers say about being a replay; nothing of it is believed before `identify` has looked."""

    id: str | None = None
    of: str | None = None
    count: int | None = None
    key: str | None = None


def replay_id(root: str, count: int) -> str:
    """The id of the `count`-th replay of `root`."""
    return f"replay-{count}-{root}"


def identify(root: str, claim: ReplayClaim) -> Identity:
    """The identity of a record whose payload says it is `root`.

    A replay is believed only when `replay.of` names the root, `replay.count` is in range and `notification.id` is the
    id that follows from both.
    """
    count = claim.count
    if claim.of == root and count is not None and 1 <= count <= MAX_REPLAYS and claim.id == replay_id(root, count):
        key = claim.key if claim.key is not None and valid_id(claim.key) else root
        return Identity(claim.id, root, count, key)
    return Identity(root, root, 0, root)
