"""What the demo sends: a hundred notifications, some of which cannot be delivered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ringonce.domain.notification import NANOS, Instant, Notification

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.channels.registry import ChannelRow

TOTAL: Final = 100
REFUSED: Final = 5
"""How many the provider will never take: it answers 422 to them, now and on replay."""
UNLUCKY: Final = 4
"""How many meet a fault that outlasts all their tries, and are delivered by the replay."""
FAILING_CALLS: Final = 11
"""The unlucky ones' calls that are answered 503: the nine tries of three stages and two of the breaker's probes.
With more probes they are delivered at once, and with fewer the replay has to try them again."""
EXPIRED: Final = 2
"""How many are past their time when they come in."""


def letters(rows: Sequence[ChannelRow], run: str, now_ns: int) -> list[Notification]:
    """The demo's notifications, round-robin over the channels; `now_ns` in nanoseconds since the epoch."""
    return [_letter(rows[number % len(rows)], run, number, now_ns) for number in range(TOTAL)]


def _letter(row: ChannelRow, run: str, number: int, now_ns: int) -> Notification:
    created = Instant(now_ns // NANOS, now_ns % NANOS)
    expired = number % (TOTAL // EXPIRED) == TOTAL // EXPIRED // 2
    return Notification(
        id=f"demo-{run}-{number:03d}",
        user_id=f"user-{number % 25}",
        channel=row.channel,
        title="Your parcel is on its way",
        body=f"Stop {number + 1} of {TOTAL}",
        payload_json=json.dumps(_fate(number)),
        trace_id=f"{run}{number:08x}",
        created_at=created,
        expires_at=Instant(created.seconds - 60) if expired else None,
        event_key="parcel:out",
    )


def _fate(number: int) -> dict[str, object]:
    """What the mock provider is to do with it, beside what it does with all."""
    if number % (TOTAL // REFUSED) == TOTAL // REFUSED - 1:
        return {"mock": {"status": 422}}
    if number % (TOTAL // UNLUCKY) == TOTAL // UNLUCKY // 4:
        return {"mock": {"status": 503, "times": FAILING_CALLS}}
    return {}
