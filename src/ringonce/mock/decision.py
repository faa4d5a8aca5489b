"""The decision about one delivery: what to answer, and what it was. Pure: the memory is read, never written."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringonce.mock.faults import Dribble, Faults, Reset
from ringonce.mock.memory import Kind
from ringonce.mock.steering import Unsteerable, steering_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.mock.memory import Memory

OK = 200


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request that was read to its end."""

    key: bytes
    """Idempotency-Key; empty when there is none"""
    signature: bytes
    """X-Signature; empty when there is none"""
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer after `wait` seconds."""

    status: int
    wait: float = 0.0
    retry_after: str = ""
    location: str = ""
    reason: str = ""
    """goes into the body, for people"""
    cut: bool = False
    """reset the connection in the middle of it"""


@dataclass(frozen=True, slots=True)
class Silence:
    """Never answer."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Reset the connection after `wait` seconds, instead of an answer."""

    wait: float = 0.0


Plan = Answer | Silence | Cut


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why."""

    plan: Plan
    kind: Kind
    """what the delivery is, by the plan"""
    shape: Faults
    """the faults that give an answer its body and its pace"""
    hits: tuple[str, ...] = ()
    """the faults that took effect, by the names of their knobs"""


DELIVERED = Decision(Answer(OK), Kind.ACT, Faults())
"""A healthy provider's one decision, recognised by identity where speed counts."""


class Signatures:
    """Checks `X-Signature`: hex HMAC-SHA256 of the exact bytes of the body."""

    def __init__(self, secret: bytes) -> None:
        # The key schedule is done once and copied: it costs more than hashing a notification.
        self._keyed = hmac.new(secret, digestmod=hashlib.sha256)

    def genuine(self, delivery: Delivery) -> bool:
        """Whether the delivery was signed with our secret."""
        keyed = self._keyed.copy()
        keyed.update(delivery.body)
        return hmac.compare_digest(keyed.hexdigest().encode(), delivery.signature.lower())


def decide(
    delivery: Delivery,
    faults: Faults,
    memory: Memory,
    chance: Callable[[], float],
    signatures: Signatures | None = None,
) -> Decision:
    """What becomes of one delivery.

    Args:
        delivery: as it was read.
        faults: in force now.
        memory: of the deliveries before this one.
        chance: a number from 0 up to 1, drawn at most once.
        signatures: None takes everything for genuine.
    """
    wait = faults.latency_ms / 1000
    if signatures is not None and not signatures.genuine(delivery):
        reason = "X-Signature is not the HMAC-SHA256 of this body"
        return Decision(Answer(401, wait, reason=reason), Kind.FORGED, faults)
    hits: tuple[str, ...] = ()
    try:
        steering = steering_of(delivery.body)
    except Unsteerable as mistake:
        return Decision(Answer(400, wait, reason=f"mock: {mistake}"), Kind.REFUSAL, faults, ("UNSTEERABLE",))
    if steering is not None and (steering.times is None or memory.calls_of(delivery.key) < steering.times):
        faults, hits = steering.faults, ("STEERED",)
    decision = _misbehave(faults, chance, hits)
    if faults.dedup and decision.kind is Kind.ACT and memory.acted_on(delivery.key):
        # Who honours keys still hangs, cuts and fails like anybody else: only what would be another act changes.
        plan = decision.plan
        return replace(decision, plan=replace(plan, status=OK) if isinstance(plan, Answer) else plan, kind=Kind.REPLAY)
    return decision


def _misbehave(faults: Faults, chance: Callable[[], float], hits: tuple[str, ...]) -> Decision:
    """The faults in the order in which a request meets them: silence, a cut, the share that fails, the fixed status."""
    wait = faults.latency_ms / 1000
    if faults.hang:
        return Decision(Silence(), Kind.ACT, faults, (*hits, "HANG"))
    if faults.reset in (Reset.AFTER, Reset.BEFORE):
        # BEFORE gets here when the knob was turned while the body came in: it was read, so this is what it amounts to.
        return Decision(Cut(wait), Kind.ACT, faults, (*hits, "RESET"))
    status, cause = OK, ""
    if faults.status is not None:
        status, cause = faults.status, "STATUS"
    if faults.fail_rate_503 or faults.fail_rate_timeout:
        drawn = chance()
        if drawn < faults.fail_rate_503:
            status, cause = 503, "FAIL_RATE_503"
        elif drawn < faults.fail_rate_503 + faults.fail_rate_timeout:
            status, cause = 504, "FAIL_RATE_TIMEOUT"
            wait += faults.timeout_hang_sec
    cut = faults.reset is Reset.MID
    hits = (*hits, *_names(faults, cause, cut=cut))
    if not hits and not wait and status == OK:
        return DELIVERED
    answer = Answer(
        status,
        wait,
        retry_after=faults.retry_after if status >= 400 else "",  # noqa: PLR2004 - where refusals begin
        location=faults.location if 300 <= status < 400 else "",  # noqa: PLR2004 - redirections
        cut=cut,
    )
    return Decision(answer, Kind.ACT if 200 <= status < 300 else Kind.REFUSAL, faults, hits)  # noqa: PLR2004 - success


def _names(faults: Faults, cause: str, *, cut: bool) -> list[str]:
    """The names under which the faults of an answer are counted: its status, and its shape."""
    shape = {
        "RESET": cut,
        "LATENCY_MS": faults.latency_ms > 0,
        "DRIBBLE": faults.dribble is not Dribble.NEVER,
        "EARLY_HINTS": faults.early_hints > 0,
        "BODY_BYTES": faults.body_bytes is not None,
        "GZIP_BOMB": faults.gzip_bomb,
    }
    return [name for name in (cause, *(name for name, hit in shape.items() if hit)) if name]
