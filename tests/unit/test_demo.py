"""What the demo sends, sees and shows."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rich.console import Console

from ringonce.channels.registry import CHANNELS
from ringonce.demo.letters import EXPIRED, REFUSED, TOTAL, UNLUCKY, letters
from ringonce.demo.picture import draw
from ringonce.demo.play import Performance, deferred
from ringonce.demo.view import table
from ringonce.demo.watch import ChannelView, _Breakers, total, waiting
from ringonce.domain.disposition import Status
from ringonce.kafka.codec import decode, encode
from ringonce.mock.steering import steering_of

if TYPE_CHECKING:
    from pathlib import Path

    from ringonce.domain.notification import Notification

NOW = 1_700_000_000 * 10**9
ROWS = list(CHANNELS.values())


def fate(letter: Notification) -> tuple[int | None, int | None] | None:
    """The status that the mock provider reads out of a letter, and for how many calls."""
    steering = steering_of(json.dumps({"payloadJson": letter.payload_json}).encode())
    return None if steering is None else (steering.faults.status, steering.times)


def test_the_letters() -> None:
    """A hundred, shared by the channels; each kind is there, and no letter is of two kinds."""
    found = letters(ROWS, "run", NOW)
    assert len({letter.id for letter in found}) == TOTAL == 100
    assert sorted(Counter(letter.channel for letter in found).values()) == [33, 33, 34]
    expired = {letter.id for letter in found if letter.expires_at is not None}
    refused = {letter.id for letter in found if fate(letter) == (422, None)}
    unlucky = {letter.id for letter in found if (fate(letter) or (0, None))[1] is not None}
    assert (len(expired), len(refused), len(unlucky)) == (EXPIRED, REFUSED, UNLUCKY)
    assert len(expired | refused | unlucky) == EXPIRED + REFUSED + UNLUCKY
    assert all(letter.expires_at.seconds < NOW // 10**9 for letter in found if letter.expires_at)
    assert len({letter.channel for letter in found if letter.id in refused}) == len(ROWS)


def test_the_letters_are_fit_to_be_sent() -> None:
    """They survive the wire."""
    found = letters(ROWS, "run", NOW)
    assert [decode(encode(letter)) for letter in found] == found


def views(*ended: dict[str, int], waits: int = 0, unrecorded: int = 0) -> list[ChannelView]:
    """One channel for each of `ended`."""
    stages = {"main": 0, "retry-30s": waits}
    return [
        ChannelView(f"channel-{number}", stages, unrecorded, "open", each) for number, each in enumerate(ended, start=1)
    ]


def test_the_last_line_counts_by_root() -> None:
    """After the replay; what has no end is lost."""
    after = views({"delivered": 60, "dlq": 5}, {"delivered": 31, "expired": 2})
    seen = Performance((), views({}), after)
    assert seen.summary() == "demo: delivered=91 dlq=5 expired=2 total=100 lost=2"
    assert seen.lost == 2


def test_what_is_on_its_way() -> None:
    """Records in stages, and dead letters without a row."""
    assert waiting(views({}, {}, waits=3)) == 6
    assert waiting(views({}, {}, unrecorded=1)) == 2
    assert waiting(views({"dlq": 4})) == 0
    assert deferred(views({}, {}, waits=3)) == 6
    assert total(views({"dlq": 4}, {"dlq": 1, "expired": 1}), Status.DLQ) == 5


def test_the_table_says_everything() -> None:
    """A row per channel."""
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(table("a title", views({"delivered": 41, "expired": 2}, {"dlq": 7}, waits=3)))
    text = console.export_text()
    assert "a title" in text
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[:1] == "│"]
    assert rows == [
        ["channel-1", "·", "3", "open", "41", "·", "2"],
        ["channel-2", "·", "3", "open", "·", "7", "·"],
    ]


def test_breakers_are_read_from_the_log_as_it_grows(tmp_path: Path) -> None:
    """A webhook's by its host; a line that is still being written is read later."""
    log = tmp_path / "fleet.log"
    breakers = _Breakers(log, {"127.0.0.1:9": "webhook"})
    assert breakers.states() == {}
    half = json.dumps({"event_type": "BreakerChanged", "destination": "127.0.0.1:9", "after": "open"})
    log.write_text("apns | not JSON {\n" + f"apns | {changed('apns', 'open')}\n" + f"webhook | {half[:30]}")
    assert breakers.states() == {"apns": "open"}
    with log.open("a") as more:
        more.write(f"{half[30:]}\napns | {changed('apns', 'half-open')}\n")
    assert breakers.states() == {"apns": "half-open", "webhook": "open"}


def changed(destination: str, after: str) -> str:
    """A breaker's event as it is logged."""
    return json.dumps({"event_type": "BreakerChanged", "destination": destination, "after": after})


def test_the_picture_is_small_and_loads_nothing(tmp_path: Path) -> None:
    """It is SVG, and shows the last line."""
    after = views({"delivered": 93, "dlq": 5, "expired": 2})
    seen = Performance(views({}, waits=3), views({"dlq": 9}), after)
    draw(seen, tmp_path / "demo.svg")
    text = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314 - our own
    assert "url(http" not in text.replace('"', "")
    assert "lost=0" in text
    assert len(text) < 60_000
