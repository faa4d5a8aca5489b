"""What a provider remembers of its deliveries, so that a test can count acts and duplicates."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_LIMIT = 500_000


class Kind(StrEnum):
    """What a delivery was to the provider."""

    ACT = "act"
    """body read and not refused: answered 2xx, or never answered"""
    REPLAY = "replay"
    """would have been an act, but its key was acted on already and the provider honours keys"""
    REFUSAL = "refusal"
    """answered anything but 2xx"""
    FORGED = "forged"
    """signature missing or wrong: answered 401, and its key means nothing"""


class Call:
    """One delivery whose body was read. Slim and mutable: there may be half a million of them."""

    __slots__ = ("digest", "key", "kind", "monotonic", "number", "status", "wall")

    def __init__(self, key: bytes, digest: bytes, monotonic: float, wall: float, kind: Kind) -> None:
        self.key = key
        self.digest = digest
        self.monotonic = monotonic
        self.wall = wall
        self.kind = kind
        self.status: int | None = None
        """what was answered; None: nothing, or not yet"""
        self.number = 0
        """its place among the acts, from 1; 0: no act"""


@dataclass(frozen=True, slots=True)
class Act:
    """A call as tests see it."""

    number: int
    """1 for the first act ever, without gaps; 0 for a call that was no act"""
    key: str
    hash: str
    """the first 64 bits of the body's SHA-256, in hex"""
    t: float
    """monotonic seconds at arrival, comparable within one provider"""
    wall: float
    """seconds since 1970 at arrival"""
    status: int | None
    """what was answered; None: nothing, or not yet"""
    kind: str = Kind.ACT

    def as_json(self) -> dict[str, object]:
        """The act as one line of `GET /acts`."""
        return asdict(self)


class _Key:
    """What is known of one Idempotency-Key while a call of it is remembered."""

    __slots__ = ("acts", "calls", "differs", "digest")

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.calls = 0
        self.acts = 0
        self.differs = False


class Memory:
    """The last `limit` calls, and counts over all calls there were.

    A provider that shall forget gets a new memory; calls that are under way then end in the old one. A key
    is forgotten with its last remembered call; if it came again after that, it would count as new. Calls without a key
    are remembered, but are nobody's duplicates. Forged calls touch no key.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._calls: deque[Call] = deque()
        self._acts: deque[Call] = deque(maxlen=limit)
        self._keys: dict[bytes, _Key] = {}
        self._by_status: Counter[int] = Counter()
        self._by_kind: Counter[Kind] = Counter()
        self._hits: Counter[str] = Counter()
        self._acted = 0
        self._distinct = 0
        self._duplicates = 0
        self._differing = 0
        self._unanswered = 0
        self._strays = 0
        self._in_flight = 0
        self._max_in_flight = 0

    def calls_of(self, key: bytes) -> int:
        """How many remembered calls came with this key."""
        known = self._keys.get(key)
        return known.calls if known else 0

    def acted_on(self, key: bytes) -> bool:
        """Whether a remembered call with this key was an act."""
        known = self._keys.get(key)
        return known is not None and known.acts > 0

    def arrived(self, call: Call, hits: Iterable[str] = ()) -> None:
        """A body was read. An act counts from here on: nothing that happens to the answer undoes it."""
        if len(self._calls) >= self.limit:
            self._forget(self._calls.popleft())
        self._calls.append(call)
        self._in_flight += 1
        self._max_in_flight = max(self._max_in_flight, self._in_flight)
        self._by_kind[call.kind] += 1
        for hit in hits:
            self._hits[hit] += 1
        if call.key and call.kind is not Kind.FORGED:
            known = self._keys.get(call.key)
            if known is None:
                known = self._keys[call.key] = _Key(call.digest)
                self._distinct += 1
            elif known.digest != call.digest and not known.differs:
                known.differs = True
                self._differing += 1
            known.calls += 1
        if call.kind is Kind.ACT:
            self._count_act(call)

    def answered(self, call: Call, status: int) -> None:
        """The status line was sent."""
        call.status = status
        self._by_status[status] += 1

    def left(self, call: Call, *, dedup: bool = False) -> None:
        """The call is over: its answer was sent, or the connection is gone.

        A refusal that never reached anyone is no refusal: nobody can tell it from an act, so it counts as one, or under
        `dedup` as a replay.
        """
        self._in_flight -= 1
        if call.status is not None:
            return
        self._unanswered += 1
        if call.kind is Kind.REFUSAL:
            self._by_kind[Kind.REFUSAL] -= 1
            call.kind = Kind.REPLAY if dedup and self.acted_on(call.key) else Kind.ACT
            self._by_kind[call.kind] += 1
            if call.kind is Kind.ACT:
                self._count_act(call)

    def strayed(self, hit: str) -> None:
        """A request was no delivery (no POST, no HTTP, too large), or was cut before its body was read."""
        self._strays += 1
        self._hits[hit] += 1

    def acts(self, since: int = 0, limit: int | None = None) -> list[Act]:
        """The remembered acts numbered above `since`, oldest first, at most `limit`."""
        if not self._acts or self._acts[-1].number <= since:
            return []
        start = max(0, since + 1 - self._acts[0].number)
        stop = None if limit is None else start + limit
        return [_seen(call) for call in islice(self._acts, start, stop)]

    def calls(self) -> list[Act]:
        """Every remembered call, refused ones too, in order of arrival."""
        return [_seen(call) for call in self._calls]

    def stats(self) -> dict[str, object]:
        """The counts, as `GET /stats` shows them."""
        return {
            "requests": sum(self._by_kind.values()) + self._strays,
            "acts": self._by_kind[Kind.ACT],
            "keys": self._distinct,
            "duplicates": self._duplicates,
            "differing": self._differing,
            "replayed": self._by_kind[Kind.REPLAY],
            "refused": self._by_kind[Kind.REFUSAL],
            "bad_signatures": self._by_kind[Kind.FORGED],
            "unanswered": self._unanswered,
            "strays": self._strays,
            "by_status": {str(status): count for status, count in sorted(self._by_status.items())},
            "hits": dict(sorted(self._hits.items())),
            "in_flight": self._in_flight,
            "max_in_flight": self._max_in_flight,
            "remembered": len(self._calls),
        }

    def _count_act(self, call: Call) -> None:
        self._acted += 1
        call.number = self._acted
        self._acts.append(call)
        known = self._keys.get(call.key)
        if known is not None:
            self._duplicates += known.acts > 0
            known.acts += 1

    def _forget(self, call: Call) -> None:
        known = self._keys.get(call.key)
        if known is None or call.kind is Kind.FORGED:
            return
        known.calls -= 1
        known.acts -= call.kind is Kind.ACT
        if known.calls == 0:
            del self._keys[call.key]


def _seen(call: Call) -> Act:
    return Act(
        number=call.number,
        key=call.key.decode("latin-1"),
        hash=call.digest.hex(),
        t=call.monotonic,
        wall=call.wall,
        status=call.status,
        kind=call.kind,
    )
