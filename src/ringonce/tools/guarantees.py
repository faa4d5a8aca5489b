"""What each channel promises, and what a kill -9 does to it in each window: put together from the domain's values."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from ringonce.channels.registry import CATALOGUE
from ringonce.domain.semantics import (
    AtMostOnce,
    Before,
    Bounded,
    EffectivelyOnce,
    OnExhausted,
    OnRefused,
    Semantics,
    before_send,
    declared,
)
from ringonce.runtime.failpoints import Point

if TYPE_CHECKING:
    from collections.abc import Mapping

PROOF: Final = "tests/integration/test_semantics.py::test_kill_in_a_window"


class Window(StrEnum):
    """Where a process can be killed amid one delivery."""

    A = "A"
    """before the call is sent, what has to be durable before it included"""
    B = "B"
    """from sending to the commit of the row"""
    C = "C"
    """from the row to the commit of the offset"""

    @property
    def point(self) -> Point:
        """The failpoint inside the window."""
        return {Window.A: Point.BEFORE_SEND, Window.B: Point.AFTER_SEND, Window.C: Point.AFTER_RECORD}[self]


_SKIPPED: Final = "the gate knows it: it is skipped"

AFTER_KILL: Final[Mapping[tuple[Before, Window], str]] = {
    (Before.NOTHING, Window.A): "sent by the next owner, once",
    (Before.NOTHING, Window.B): "sent again with the same key and body; one row",
    (Before.NOTHING, Window.C): _SKIPPED,
    (Before.CLAIM, Window.A): "not sent; its row stays `unknown`",
    (Before.CLAIM, Window.B): "sent once; its row stays `unknown`",
    (Before.CLAIM, Window.C): _SKIPPED,
    (Before.COUNT, Window.A): "one attempt is used up; sent by the next owner while one is left",
    (Before.COUNT, Window.B): "the attempt is used up; sent again while one is left",
    (Before.COUNT, Window.C): _SKIPPED,
}


class Kill(NamedTuple):
    """What a kill in one window does, and the test that shows it."""

    window: Window
    what: str
    proof: str


def promise(semantics: Semantics) -> str:
    """What the recipient may count on, in a sentence."""
    match semantics:
        case EffectivelyOnce():
            return "sent until it is known to have been taken, under one key: a receiver that honours it acts once"
        case AtMostOnce(on_refused):
            refused = "is tried again" if on_refused is OnRefused.RETRY else "stays `unknown`"
            return f"never sent again once it may have been taken: no answer stays `unknown`, a refusal {refused}"
        case Bounded(limit, on_exhausted):
            end = "`dropped`" if on_exhausted is OnExhausted.DROP else "in the DLQ"
            return f"sent at most {limit} times, and as often again for each replay; what has used that up ends {end}"


def kills(semantics: Semantics) -> list[Kill]:
    """What a kill does in each window."""
    name = str(semantics).partition("(")[0]
    return [
        Kill(window, AFTER_KILL[before_send(semantics), window], f"{PROOF}[{name}-{window.point}]") for window in Window
    ]


KINDS: Final[Mapping[str, Semantics]] = {
    "effectively-once": EffectivelyOnce(),
    "at-most-once": AtMostOnce(),
    "bounded(n)": Bounded(),
}


def usual() -> dict[str, Semantics]:
    """What each channel promises where nothing else is declared."""
    return {name: declared(row.protocol.name) for name, row in CATALOGUE.items()}


def lines(channel: str, semantics: Semantics) -> list[str]:
    """For a terminal."""
    found = [f"{channel} → {semantics}: {_plain(promise(semantics))}"]
    for kill in kills(semantics):
        found += [f"  kill -9 in window {kill.window}: {_plain(kill.what)}", f"    {kill.proof}"]
    return found


def tables() -> str:
    """For docs/semantics.md."""
    rows = [f"| {name} | {semantics} | {promise(semantics)} |" for name, semantics in usual().items()]
    killed = [
        f"| {name} | {kill.window} | {kill.what} | `{kill.proof.partition('::')[2]}` |"
        for name, kind in KINDS.items()
        for kill in kills(kind)
    ]
    return "\n".join(
        [
            "| channel | unless declared otherwise | which means |",
            "|---|---|---|",
            *rows,
            "",
            "| semantics | kill -9 in window | what follows | shown by |",
            "|---|---|---|---|",
            *killed,
            "",
            f"The tests are in `{PROOF.partition('::')[0]}`.",
        ]
    )


def _plain(text: str) -> str:
    return text.replace("`", "")
