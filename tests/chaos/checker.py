"""The invariants as questions to data: what came in, what the rows say, what the providers saw, and what was broken.

Everything here is pure. What proves nothing, because there was nothing to look at, does not hold.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tests.chaos.sent import Fate, Kind
from tests.fixtures.rows import beyond_the_first, untruths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tests.chaos.follower import Copy
    from tests.chaos.sampler import Sampler
    from tests.chaos.sent import Sent
    from tests.fixtures.rows import Row

    from ringonce.mock.memory import Act
    from ringonce.mock.thread import MockProvider

NAMED: Final = 5
"""How many of those at fault a verdict names."""
UNANSWERED: Final = " was answered 2xx, and no row says so"
_SYNTHETIC: Final = re.compile(r"[a-zA-Z0-9._-]+/[0-9]+/[0-9]+/(?:-1|[0-9]+)-([0-9a-f]{8})\Z")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check came to; `text` has the figures, and names some of those at fault."""

    invariant: str
    ok: bool
    text: str

    def __str__(self) -> str:
        return f"{self.invariant:<3} {'holds' if self.ok else 'BROKEN'}  {self.text}"


@dataclass(frozen=True, slots=True)
class Damage:
    """What was broken in a run: all that may explain a duplicate. Nothing was, by default."""

    slots: int = 0
    """requests that one process has in flight at most"""
    held: int = 0
    """most work that one process held, sent and not recorded, on top of those"""
    kills: int = 0
    """of senders, in window B or at random"""
    partitions_lost: int = 0
    overdue_drains: int = 0
    """drains, of a partition or a process, that were cut off at their deadline"""
    indeterminate: int = 0
    """calls without an answer"""
    unknown_forwards: int = 0
    """forwards whose fate was unknown, and that were repeated"""
    router_crashes: int = 0
    router_batch: int = 0
    """most records of the router's that were not committed at one time"""
    replay_crashes: int = 0
    replay_batch: int = 0
    duplicates: int = 0
    """in the input, across processes"""

    @property
    def sent_again(self) -> int:
        """Calls that may have been made twice because whoever made them could not write that down."""
        return (self.slots + self.held) * (self.kills + self.partitions_lost + self.overdue_drains)

    @property
    def copied_again(self) -> int:
        """Copies that may be there twice."""
        batches = self.router_batch * self.router_crashes + self.replay_batch * self.replay_crashes
        return self.unknown_forwards + batches + self.duplicates

    @property
    def crashed(self) -> bool:
        """Whether something was broken off that may have done its work and not have said so."""
        return bool(
            self.kills
            or self.partitions_lost
            or self.overdue_drains
            or self.unknown_forwards
            or self.router_crashes
            or self.replay_crashes
        )

    @property
    def allowance(self) -> int:
        """How many acts beyond the first of their key there may be."""
        return self.sent_again + self.indeterminate + self.copied_again


def named(culprits: Iterable[str]) -> str:
    """Some of them, and how many more there are; empty for none."""
    found = sorted(culprits)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def lost(sent: Sequence[Sent], rows: Mapping[str, Row]) -> Verdict:
    """I1: what was acknowledged has a terminal row; what was refused for good has none."""
    acknowledged = {one.key for one in sent if one.fate is Fate.OK}
    never = {one.key for one in sent if one.fate is Fate.FAIL} - {one.key for one in sent if one.fate is not Fate.FAIL}
    missing = acknowledged - {name for name, row in rows.items() if row["status"] != "unknown"}
    appeared = never & {row["root_id"] for row in rows.values()}
    text = f"{len(acknowledged)} ids acknowledged, {len(missing)} without a row"
    if missing:
        text += f": {named(missing)}"
    if appeared:
        text += f"; {len(appeared)} that were refused have one: {named(appeared)}"
    return Verdict("I1", bool(acknowledged) and not missing and not appeared, text)


def came_in(sent: Iterable[Sent], rows: Mapping[str, Row]) -> set[str]:
    """The roots that may have a row.

    A record without a valid id whose produce the broker never answered has a row under a name that nobody could know;
    but it ends in its value's digest.
    """
    could = [one for one in sent if one.fate is not Fate.FAIL]
    nameless = {one.digest[:8] for one in could if one.fate is Fate.INFO and one.offset < 0}
    roots = {row["root_id"] for row in rows.values()}
    found = {root for root in roots if (match := _SYNTHETIC.match(root)) and match[1] in nameless}
    return found | {one.key for one in could}


def truth(
    sent: Sequence[Sent], rows: dict[str, Row], providers: Sequence[MockProvider], damage: Damage | None = None
) -> Verdict:
    """I2: no row tells what did not happen, and no act goes without its row.

    An act whose answer never arrived is told by `maybe_reached`, or was made by a process that was killed: of those
    that nobody could tell, there may be as many as such a process had in its hands.
    """
    broken = damage or Damage()
    told = {row["root_id"] for row in rows.values() if row["maybe_reached"]}
    found = untruths(rows, came_in(sent, rows), providers)
    unanswered = {line.removesuffix(UNANSWERED) for line in found if line.endswith(UNANSWERED)}
    silent = unanswered - told
    others = [line for line in found if not line.endswith(UNANSWERED)]
    if len(silent) > broken.sent_again:
        others += [root + UNANSWERED for root in silent]
    text = f"{len(rows)} rows, {len(others)} of them or of the acts untold or untrue"
    if others:
        text += f": {named(others)}"
    if unanswered:
        text += (
            f"; of {len(unanswered)} acts without a delivered row {len(unanswered & told)} are told by maybe_reached,"
            f" {len(silent)} by nobody, allowed {broken.sent_again}"
        )
    return Verdict("I2", bool(rows) and not others, text)


def same_bytes(sent: Iterable[Sent], copies_of: Callable[[str], Sequence[Copy]]) -> Verdict:
    """I2: the copies of a root that was sent with one body all have that body. `copies_of` is the follower's."""
    looked, changed = 0, []
    for key, digests in _digests(sent).items():
        if key and len(digests) == 1:
            copies = copies_of(key)
            looked += len(copies)
            changed += [f"{copy.partition}@{copy.offset} ({key})" for copy in copies if copy.digest not in digests]
    text = f"{looked} copies, {len(changed)} with other bytes than came in"
    return Verdict("I2", looked > 0 and not changed, text + (f": {named(changed)}" if changed else ""))


def one_end(
    sent: Iterable[Sent], rows: Mapping[str, Row], gate: Collection[tuple[str, str]], damage: Damage | None = None
) -> Verdict:
    """I2: no root is ended by a sender and by a recorder as well, unless a crash, a copy or its replay explains it.

    Args:
        sent: what came in.
        rows: the history by id.
        gate: (consumer, id) of every gate row.
        damage: what was broken.
    """
    broken = damage or Damage()
    consumers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for consumer, name in gate:
        channel, _, role = consumer.rpartition("-")
        consumers[channel, name].add(role)
    twice = {name for (_, name), roles in consumers.items() if {"sender", "dlq"} <= roles}
    times: dict[str, int] = defaultdict(int)
    for one in sent:
        times[one.key] += one.fate is not Fate.FAIL
    # A delivered replay closes the sender's gate for its root, which the recorder had ended.
    replayed = {row["root_id"] for row in rows.values() if row["replay_of"] is not None}
    unexplained = {name for name in twice if name not in replayed and times[name] <= 1}
    text = f"{len(gate)} gate rows, {len(twice)} ids ended by two processes, {len(unexplained)} by no copy or replay"
    if unexplained:
        text += f": {named(unexplained)}" + ("; after a crash" if broken.crashed else "")
    return Verdict("I2", bool(gate) and (broken.crashed or not unexplained), text)


def bounded(sent: Iterable[Sent], acts: Iterable[Act], damage: Damage | None = None) -> Verdict:
    """I3: acts beyond the first of their key, against what was broken; and one key stands for one body."""
    broken = damage or Damage()
    bodies = {key: len(digests) for key, digests in _digests(sent).items()}
    hashes: dict[str, set[str]] = defaultdict(set)
    # An id that came with two bodies may stand for either: each of them counts as if it were a key.
    told_apart = []
    count = 0
    for act in acts:
        count += 1
        hashes[act.key].add(act.hash)
        told_apart.append(replace(act, key=f"{act.key} {act.hash}"))
    beyond = beyond_the_first(told_apart) + sum(len(found) - 1 for found in hashes.values())
    keyless = "" in hashes
    mixed = [key for key, found in hashes.items() if len(found) > max(1, bodies.get(key, 1))]
    text = f"acts beyond the first: {beyond}, allowed {broken.allowance}, of {count}"
    if mixed:
        text += f"; one key, two bodies: {named(mixed)}"
    if keyless:
        text += "; some have no key"
    return Verdict("I3", count > 0 and beyond <= broken.allowance and not mixed and not keyless, text)


def punctual(
    sent: Iterable[Sent],
    rows: Mapping[str, Row],
    calls: Iterable[Act],
    tolerance: float = 1.0,
    tampered: Collection[str] = (),
) -> Verdict:
    """Promise 6: no attempt starts after `expires_at`; what came in too late is never attempted.

    Args:
        sent: what came in.
        rows: the history by id.
        calls: every call that a provider remembers, refused ones too.
        tolerance: seconds between an attempt's start and its arrival, and between two clocks of one machine.
        tampered: channels whose sender's clock was wrong.
    """
    kinds: dict[str, set[Kind]] = defaultdict(set)
    for one in sent:
        kinds[one.key].add(one.kind)
    ends = {
        name: row["expires_at"].timestamp()
        for name, row in rows.items()
        # Of twins the row tells the end of one, and the call may have been the other's.
        if row["expires_at"] is not None and row["channel"] not in tampered and Kind.TWIN not in kinds[name]
    }
    wrong = {name for name, row in rows.items() if row["channel"] in tampered}
    called, late = 0, set()
    for call in calls:
        called += 1
        end = ends.get(call.key)
        if (end is not None and call.wall > end + tolerance) or (
            kinds[call.key] == {Kind.EXPIRED} and call.key not in wrong
        ):
            late.add(call.key)
    text = f"{called} calls, {len(ends)} ids with an end, {len(late)} called after it"
    return Verdict("P6", called > 0 and not late, text + (f": {named(late)}" if late else ""))


def offsets(sampler: Sampler) -> Verdict:
    """I5: what the sampler found, once it has stopped."""
    text = (
        f"{sampler.covered} offsets judged in {sampler.samples} looks, {sampler.violations} passed unfinished work or"
        f" went back ({sampler.late} looks late, {sampler.missed} missed, {sampler.unjudged} offsets never judged)"
    )
    ok = sampler.covered > 0 and not sampler.violations and not sampler.unjudged
    return Verdict("I5", ok, text + (f": {named(sampler.findings)}" if sampler.findings else ""))


def _digests(sent: Iterable[Sent]) -> dict[str, set[str]]:
    """The bodies with which each key came in, or may have."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in sent:
        if one.fate is not Fate.FAIL:
            found[one.key].add(one.digest)
    return found
