"""What an operator asks a replay to do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ringonce.domain.stages import MAIN
from ringonce.runtime.selection import ALL, USUAL, Rules, Selection

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Order:
    """One replay.

    Args:
        selection: which letters.
        rules: what is allowed.
        to: the stage that they are published to.
        limit: the most that are published; None for no limit.
        rate: the most that are published in a second; None for as fast as possible.
        name: under which its progress is kept; empty for none.
        typed: times as they were typed, `since` and `until`: what a named replay is known by when it goes on.
    """

    selection: Selection = ALL
    rules: Rules = USUAL
    to: str = MAIN
    limit: int | None = None
    rate: float | None = None
    name: str = ""
    typed: Mapping[str, str] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether it makes no choice: then it goes on where the last such replay ended."""
        return not self.name and self.selection == ALL and self.rules == USUAL

    def asked(self) -> dict[str, Any]:
        """What makes two commands the same replay, as JSON: all but its name and its rate."""
        selection, rules = self.selection, self.rules
        ids = "\n".join(sorted(selection.ids)).encode()
        return {
            "since": self.typed.get("since"),
            "until": self.typed.get("until"),
            "error_class": sorted(selection.error_classes),
            "reason": sorted(selection.reasons),
            "status": sorted(selection.statuses),
            "event_key": sorted(selection.event_keys),
            "user": sorted(selection.users),
            "ids": hashlib.sha256(ids).hexdigest() if ids else None,
            "max_replays": rules.max_replays,
            "include_maybe_reached": rules.include_maybe_reached,
            "fresh_key": rules.fresh_key,
            "fix_channel": None if rules.fix is None else rules.fix.name.lower(),
            "to": self.to,
            "limit": self.limit,
        }


EVERYTHING: Final = Order()
