"""Dead letters on a terminal: counts as a table, one letter as a list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ringonce.kafka import headers as names
from ringonce.runtime.tally import BUCKETS, OLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.domain.notification import Notification
    from ringonce.runtime.letters import DeadLetter
    from ringonce.runtime.tally import Tally

MOST_BYTES: Final = 256
"""What is shown of a value that cannot be decoded."""
AGES: Final = ((86_400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))


def counts(tally: Tally) -> list[str]:
    """A tally as a table: a line for each cause, a column for each age."""
    heads = [name if name == OLDER else f"<{name}" for name in BUCKETS]
    lines = [["class", "reason", "status", *heads, "total"]]
    for cause, ages in tally.rows():
        status = "-" if cause.status is None else str(cause.status)
        numbers = [str(ages[name]) for name in BUCKETS]
        lines.append([plain(cause.error_class) or "-", plain(cause.reason) or "-", status, *numbers, str(ages.total())])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)  # noqa: PLR2004 - the two columns of words
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]


def portrait(letter: DeadLetter, now: float, *, reveal: bool) -> Iterator[str]:
    """One letter: what became of it, how it came here, what it says. What is the recipient's is masked, or revealed."""
    record, envelope = letter.record, letter.envelope
    yield f"{record.partition}@{record.offset}"
    replay = f", replay {letter.replay} of {letter.root}" if letter.replay else ""
    yield from _lines(
        ("id", letter.id + replay),
        ("idempotency key", envelope.identity.key),
        ("died", f"{moment(letter.died_at)} ({age(now - letter.died_at)} ago)"),
        ("error", letter.error),
        ("class", letter.error_class),
        ("reason", letter.reason),
        ("status", "" if letter.status is None else str(letter.status)),
        ("attempts", str(envelope.hints.attempts)),
        ("maybe reached", "yes: an attempt got no answer" if letter.maybe_reached else "no"),
    )
    yield "route"
    given = {name: value for name, value in record.headers if name in names.RESERVED}
    shown = (names.ORIGINAL_TOPIC, names.PREVIOUS_TOPIC, names.RETRY_COUNT, names.ROUTER_NODE, names.CHANNEL)
    others = [name for name, _ in record.headers if name not in names.RESERVED and name != names.TRACEPARENT]
    yield from _lines(
        ("origin", str(envelope.origin)),
        *((name, (given.get(name) or b"").decode("utf-8", "replace")) for name in shown),
        (names.TRACEPARENT, envelope.hints.traceparent or ""),
        ("key", _masked((record.key or b"").decode("utf-8", "replace"), reveal=reveal)),
        ("other headers", ", ".join(others)),
    )
    yield "notification"
    if letter.notification is None:
        yield f"  cannot be decoded: {letter.fault}"
        if record.value is not None:
            content = f": {record.value[:MOST_BYTES].hex(' ')}" if reveal else "; --reveal shows them"
            yield f"  {len(record.value)} bytes{content}"
        return
    if letter.fault is not None:
        yield f"  can never be delivered: {letter.fault}"
    yield from _lines(*_fields(letter.notification, now, reveal=reveal))


def _fields(notification: Notification, now: float, *, reveal: bool) -> Iterator[tuple[str, str]]:
    created, expires = notification.created_at, notification.expires_at
    yield "id", notification.id
    yield "channel", str(notification.channel)
    for name in ("user_id", "target", "title", "body", "payload_json"):
        yield name, _masked(getattr(notification, name), reveal=reveal)
    yield "event_key", notification.event_key
    yield "collapse_key", notification.collapse_key
    yield "trace_id", notification.trace_id
    yield "priority", str(notification.priority or "")
    yield "created_at", "" if created is None else created.rfc3339()
    over = " (over)" if expires is not None and expires.epoch() <= now else ""
    yield "expires_at", "" if expires is None else expires.rfc3339() + over


def _lines(*fields: tuple[str, str]) -> Iterator[str]:
    """What there is, a line each; empty fields are left out."""
    for name, text in fields:
        if text:
            yield f"  {name:<16} {plain(text)}"


def _masked(text: str, *, reveal: bool) -> str:
    return text if reveal or not text else f"*** ({len(text)} characters; --reveal shows them)"


def plain(text: str) -> str:
    """A text from outside, for a terminal: nothing in it moves the cursor."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def moment(at: float) -> str:
    """Seconds since the epoch for a person."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{at:g} s after the epoch"


def age(seconds: float) -> str:
    """A span of time in its largest unit: ``2h``."""
    return next((f"{seconds / unit:.0f}{name}" for unit, name in AGES if seconds >= unit), "0s")
