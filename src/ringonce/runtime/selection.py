"""Which dead letters a replay sends: what was asked for, and what speaks against a letter. Decisions as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ringonce.domain.notification import Channel
from ringonce.store.replays import NO_PAST, Past

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.runtime.letters import DeadLetter

MAX_REPLAYS: Final = 3
"""Replays of one root, unless the operator allows more."""


class Verdict(StrEnum):
    """What becomes of a letter in a replay."""

    GO = "go"
    """it is sent again"""
    OTHER = "other"
    """it was not asked for"""
    UNFIT = "unfit"
    """it can never be delivered as it is: not decodable, no valid id, another channel's"""
    SUPERSEDED = "superseded"
    """another letter of its root, or a replay that has come to its end, has a higher count"""
    DELIVERED = "delivered"
    """its root has been delivered meanwhile"""
    GUARD = "guard"
    """its root has been replayed as often as is allowed"""
    EXPIRED = "expired"
    """no attempt may start any more"""
    MAYBE_REACHED = "maybe-reached"
    """an attempt may have reached the provider, and such were not asked for"""
    UNPUBLISHABLE = "unpublishable"
    """the topic can never take it: too large, with its headers"""


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for; an empty set, and None, mean "any". Times are seconds since the epoch, of the death.

    `ids` are of roots or of replays. Classes and reasons are in lower case.
    """

    since: float | None = None
    until: float | None = None
    error_classes: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    event_keys: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    def wants(self, letter: DeadLetter) -> bool:
        """Whether the letter was asked for."""
        return (
            (self.since is None or letter.died_at >= self.since)
            and (self.until is None or letter.died_at < self.until)
            and (not self.error_classes or letter.error_class.lower() in self.error_classes)
            and (not self.reasons or letter.reason.lower() in self.reasons)
            and (not self.statuses or letter.status in self.statuses)
            and (not self.event_keys or letter.event_key in self.event_keys)
            and (not self.users or letter.user in self.users)
            and (not self.ids or letter.root in self.ids or letter.id in self.ids)
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator allows.

    `fresh_key`: a new Idempotency-Key. `fix`: the channel to put into letters that came without one; with it nothing
    else is sent.
    """

    max_replays: int = MAX_REPLAYS
    include_maybe_reached: bool = False
    fresh_key: bool = False
    fix: Channel | None = None


ALL: Final = Selection()
USUAL: Final = Rules()


def judge(  # noqa: PLR0911 - one line per verdict
    letter: DeadLetter,
    selection: Selection,
    rules: Rules,
    newest: Mapping[str, tuple[int, int, int]],
    past: Mapping[str, Past],
    now: float,
) -> Verdict:
    """What becomes of a letter: of several reasons against it the first in this order.

    Args:
        letter: which.
        selection: what was asked for.
        rules: what is allowed.
        newest: by root, the standing of the letter that goes, if any of it does.
        past: by root, what the database knows.
        now: seconds since the epoch.
    """
    if not selection.wants(letter):
        return Verdict.OTHER
    if _unfit(letter, rules.fix):
        return Verdict.UNFIT
    if newest.get(letter.root, letter.standing) != letter.standing:
        return Verdict.SUPERSEDED
    before = past.get(letter.root, NO_PAST)
    if before.delivered:
        return Verdict.DELIVERED
    # The next replay has come to its end already, and would be absorbed under its id.
    if before.replays > letter.replay:
        return Verdict.SUPERSEDED
    if letter.replay >= rules.max_replays:
        return Verdict.GUARD
    if letter.expires_at is not None and letter.expires_at <= now:
        return Verdict.EXPIRED
    if letter.maybe_reached and not rules.include_maybe_reached:
        return Verdict.MAYBE_REACHED
    return Verdict.GO


def _unfit(letter: DeadLetter, fix: Channel | None) -> bool:
    if letter.notification is None or letter.fault is not None:
        return True
    return fix is not None and letter.notification.channel != Channel.UNSPECIFIED
