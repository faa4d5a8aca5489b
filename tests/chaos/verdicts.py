"""All invariants of a run, each as one line."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from tests.chaos import checker
from tests.chaos.arena import SLOTS
from tests.chaos.canaries import in_files, in_tables, unseen
from tests.chaos.checker import Verdict, named
from tests.chaos.hygiene import Growth, Spans, flat
from tests.chaos.pace import Window, recovered, seconds_to_recover, undisturbed

from ringonce.mock.memory import Kind as CallKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.episode import Evidence, Turn
    from tests.chaos.sent import Sent


GROWTH: Final = Growth(fds=SLOTS + 8, connections=SLOTS + 8)
"""A sender keeps a connection for each of its slots, and opens them when it first needs them."""

NOISE: Final = 1.0
"""Seconds below which a p99 tells more of a small machine than of us: whatever is started again takes a core of it."""


FIRST_HOST: Final = "webhook's first host"


def verdicts(seen: Evidence) -> list[Verdict]:
    """What the evidence says, one after the other."""
    calls = list(chain.from_iterable(seen.calls.values()))
    acts = [call for call in calls if call.kind == CallKind.ACT]
    tampered = sorted({name for turn in seen.turns if not turn.fault.clocks for name in turn.fault.feels})
    return [
        declared(seen),
        checker.lost(seen.sent, seen.rows),
        checker.truth(seen.sent, seen.rows, seen.providers, seen.damage),
        checker.same_bytes(seen.sent, seen.follower.copies_of),
        checker.one_end(seen.sent, seen.rows, seen.gate, seen.damage),
        checker.bounded(seen.sent, acts, seen.damage),
        *(verdict for turn in seen.turns for verdict in turn_verdicts(seen, turn)),
        checker.offsets(seen.sampler),
        *flatness(seen),
        unseen(in_files(seen.canaries, seen.logs), in_tables(seen.canaries, seen.database_url)),
        checker.punctual(seen.sent, seen.rows, calls, tampered=tampered),
        Verdict("all", not seen.findings, named(seen.findings) or "nothing else was found"),
    ]


def flatness(seen: Evidence) -> list[Verdict]:
    """I7, where anybody lived long enough to be looked at; a short run says nothing of it."""
    shortest = Spans().shortest
    return [flat(seen.hygiene.series, GROWTH)] if any(life.seconds >= shortest for life in seen.hygiene.series) else []


def declared(seen: Evidence) -> Verdict:
    """A fault that was declared and never hit has proven nothing."""
    missed = [name for name in seen.declared if not seen.hits.get(name)]
    text = f"{len(seen.declared)} faults declared, {len(missed)} never hit"
    return Verdict("hit", not missed, text + (f": {named(missed)}" if missed else ""))


def turn_verdicts(seen: Evidence, turn: Turn) -> Sequence[Verdict]:
    """I4 and I6 of one fault."""
    found = []
    # A death is over at once; what it does to others takes longer to see.
    during = Window(turn.during.start, max(turn.during.end, turn.during.start + 2.0))
    if turn.fault.spared:
        found.append(undisturbed(seen.sent, seen.rows, during, seen.calm, turn.fault.spared, floor=NOISE))
    if turn.fault.one_host:

        def host(one: Sent) -> str | None:
            return FIRST_HOST if one.channel == "webhook" and one.key not in seen.hosts else None

        found.append(undisturbed(seen.sent, seen.rows, during, seen.calm, [FIRST_HOST], group=host, floor=NOISE))
    found.append(recovered(seen.sent, seen.rows, turn.after))
    return [Verdict(each.invariant, each.ok, f"{turn.fault.name}: {each.text}") for each in found]


def recovery(seen: Evidence, turn: Turn) -> float | None:
    """Seconds that it took to recover from a fault."""
    return seconds_to_recover(seen.sent, seen.rows, turn.after)
