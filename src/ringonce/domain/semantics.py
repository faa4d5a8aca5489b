"""How often a recipient may get one notification: what a channel declares, and what follows from it around each call.

The table "Semantics" of DESIGN.md, as values and pure functions. The runtime asks these three questions and carries out
the answers: what happens before a call (`before_send`), after its outcome (`after_outcome`), and to a call that was
prepared and did not take place (`give_up`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ringonce.domain.disposition import Disposition, Forward, Reason, Record, Status
from ringonce.domain.outcome import Delivered, Gone, Indeterminate, NotSent, Outcome, Refused, Rejected, Throttled
from ringonce.domain.stages import DLQ

if TYPE_CHECKING:
    from collections.abc import Mapping

USUAL_BOUND: Final = 3
USUAL_CALLS: Final = 3
"""Provider calls within one stage where nothing else is set, `bounded` apart."""

HIGHEST_BOUND: Final = 1_000_000
"""A bound beyond this is a slip of the keyboard, and would not fit the column with its replays."""


class OnRefused(StrEnum):
    """What a refusal means under at-most-once: nothing was done, so it is tried again; or nobody can tell, the end."""

    RETRY = "retry"
    UNKNOWN = "unknown"


class OnExhausted(StrEnum):
    """What becomes of a record whose bound is used up: the end as `dropped`, or the DLQ."""

    DROP = "drop"
    DLQ = "dlq"


@dataclass(frozen=True, slots=True)
class EffectivelyOnce:
    """Sent until it is known to have been taken, always under one key: a receiver that honours the key acts once."""

    def __str__(self) -> str:
        return "effectively-once"


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """Never sent again once it may have been taken: rather silence than a second siren."""

    on_refused: OnRefused = OnRefused.RETRY

    def __str__(self) -> str:
        return "at-most-once"


@dataclass(frozen=True, slots=True)
class Bounded:
    """Sent at most `limit` times, crashes included, over all stages and restarts."""

    limit: int = USUAL_BOUND
    on_exhausted: OnExhausted = OnExhausted.DROP

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= HIGHEST_BOUND:
            raise ValueError(f"the bound must be from 1 to {HIGHEST_BOUND}")

    def __str__(self) -> str:
        return f"bounded({self.limit})"

    def bound(self, replays: int) -> int:
        """How many times a root may be sent, its replays included, of which there have been so many."""
        return self.limit * (1 + replays)

    def exhausted(self) -> Disposition:
        """What becomes of a record when its bound is used up."""
        match self.on_exhausted:
            case OnExhausted.DROP:
                return Record(Status.DROPPED)
            case OnExhausted.DLQ:
                return Forward(DLQ, Reason.EXHAUSTED)


Semantics: TypeAlias = EffectivelyOnce | AtMostOnce | Bounded

EFFECTIVELY_ONCE: Final = EffectivelyOnce()


class Ability(NamedTuple):
    """What a protocol's receivers can do, and what its channels promise where nothing else is declared."""

    deduplicates: bool
    default: Semantics


ABILITIES: Final[Mapping[str, Ability]] = {
    "relay": Ability(deduplicates=True, default=EFFECTIVELY_ONCE),
    "inapp": Ability(deduplicates=True, default=EFFECTIVELY_ONCE),
    "standard-webhooks": Ability(deduplicates=True, default=EFFECTIVELY_ONCE),
    "web-push": Ability(deduplicates=False, default=AtMostOnce()),
    "fcm": Ability(deduplicates=False, default=Bounded()),
    "apns": Ability(deduplicates=False, default=Bounded()),
    "smtp": Ability(deduplicates=False, default=Bounded()),
    "ntfy": Ability(deduplicates=False, default=Bounded()),
}
"""By the protocol's name."""

_BOUNDED = re.compile(r"bounded\(\s*(-?[0-9]{1,9})\s*\)\Z")


class BadSemantics(ValueError):  # noqa: N818 - what the settings brought
    """The declaration cannot be kept or read; the message says why."""


def parse(
    text: str, on_refused: OnRefused = OnRefused.RETRY, on_exhausted: OnExhausted = OnExhausted.DROP
) -> Semantics:
    """Read ``effectively-once``, ``at-most-once`` or ``bounded(3)``.

    Raises:
        BadSemantics: it is none of them, or its bound is out of range.
    """
    text = text.strip()
    if text == str(EFFECTIVELY_ONCE):
        return EFFECTIVELY_ONCE
    if text == str(AtMostOnce()):
        return AtMostOnce(on_refused)
    bounded = _BOUNDED.match(text)
    if bounded is None:
        raise BadSemantics("it must be effectively-once, at-most-once or bounded(n), such as bounded(3)")
    try:
        return Bounded(int(bounded[1]), on_exhausted)
    except ValueError as error:
        raise BadSemantics(str(error)) from None


def declared(
    protocol: str,
    text: str = "",
    on_refused: OnRefused = OnRefused.RETRY,
    on_exhausted: OnExhausted = OnExhausted.DROP,
) -> Semantics:
    """What a channel of that protocol promises: as declared, or the protocol's default where `text` is empty.

    Raises:
        BadSemantics: it cannot be read, or the protocol's receivers cannot keep it.
    """
    ability = ABILITIES[protocol]
    found = parse(text or str(ability.default), on_refused, on_exhausted)
    if isinstance(found, EffectivelyOnce) and not ability.deduplicates:
        raise BadSemantics(
            f"{found} cannot be kept over {protocol}, whose receivers do not deduplicate; "
            f"at-most-once and bounded(n) can"
        )
    return found


def calls_per_stage(semantics: Semantics, configured: int | None) -> int:
    """Provider calls within one stage: as configured, else 1 under `bounded`, so that its bound spans the stages."""
    if configured is not None:
        return configured
    return 1 if isinstance(semantics, Bounded) else USUAL_CALLS


class Before(Enum):
    """What has to be durable before a call."""

    NOTHING = auto()
    CLAIM = auto()  # gate row and history row `unknown`, by one winner
    COUNT = auto()  # the attempt, by root


class After(Enum):
    """What an outcome does to what was made durable before the call."""

    GO_ON = auto()  # it stays; the rules of delivery say what comes next
    GIVE_BACK = auto()  # first it is undone, by whoever made it and only while the record is ours; then the rules
    END = auto()  # it stays, and that is the end: `unknown`


def before_send(semantics: Semantics) -> Before:
    """What has to be durable before a call is made."""
    match semantics:
        case EffectivelyOnce():
            return Before.NOTHING
        case AtMostOnce():
            return Before.CLAIM
        case Bounded():
            return Before.COUNT


def after_outcome(semantics: Semantics, outcome: Outcome) -> After:
    """What follows from a call's outcome, before the rules of delivery are asked."""
    match semantics:
        case EffectivelyOnce():
            return After.GO_ON
        case AtMostOnce(on_refused):
            return _after_claim(on_refused, outcome)
        case Bounded():
            return _after_count(outcome)


def _after_claim(on_refused: OnRefused, outcome: Outcome) -> After:
    match outcome:
        case Delivered() | Gone():
            return After.GO_ON  # its row replaces `unknown`
        case NotSent() | Throttled() | Rejected():
            return After.GIVE_BACK  # surely not taken; a claim that stayed would keep a replay of it from being sent
        case Refused():
            return After.GIVE_BACK if on_refused is OnRefused.RETRY else After.END
        case Indeterminate():
            return After.END


def _after_count(outcome: Outcome) -> After:
    match outcome:
        case NotSent() | Throttled() | Rejected(status=None):
            return After.GIVE_BACK
        case Delivered() | Gone() | Rejected() | Refused() | Indeterminate():
            return After.GO_ON


def give_up(semantics: Semantics, *, begun: bool) -> After:
    """What follows when a call was prepared and is broken off, by a stop or because its partition goes.

    `begun`: whether its request was under way; a cancelled request is Indeterminate.
    """
    if begun:
        return after_outcome(semantics, Indeterminate("cancelled"))
    return After.GO_ON if before_send(semantics) is Before.NOTHING else After.GIVE_BACK
