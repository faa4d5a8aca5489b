"""Events as log lines: JSON when nobody watches, readable on a terminal.

Third-party loggers stay at WARNING: HTTP clients print whole URLs at INFO, and with them tokens and phone numbers.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import structlog

from ringonce.observe.events import (
    AttemptsDropped,
    BreakerChanged,
    Ended,
    Event,
    Forwarded,
    Held,
    PartitionsLost,
    Recorded,
    RowStripped,
    Unpublishable,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from ringonce.observe.events import Emit

PER_MESSAGE: Final = (Ended, Forwarded, Recorded)
"""Events so frequent that they are for debugging only."""

ALARMING: Final = (AttemptsDropped, Held, PartitionsLost, RowStripped, Unpublishable)


def configure(level: str = "INFO", form: str = "auto", **bound: str) -> None:
    """Set up logging for the process, to standard error.

    Args:
        level: of our own loggers; those of libraries stay at WARNING.
        form: json, text, or auto, which is text on a terminal.
        bound: what every line says of the process: its role, channel and node. What an event says itself goes first.
    """

    def bind(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in bound.items():
            line.setdefault(name, value)
        return line

    terminal = sys.stderr.isatty()
    as_json = form == "json" or (form == "auto" and not terminal)
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=terminal and "NO_COLOR" not in os.environ)
    )
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        bind,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ringonce").setLevel(level)


def only_errors_of_kafka() -> None:
    """For a command that speaks to a person: what librdkafka retries by itself is not worth a line between its own."""
    logging.getLogger("ringonce.kafka").setLevel(logging.ERROR)


def emit_to(logger: logging.Logger) -> Emit:
    """A subscriber that writes each event to `logger`."""

    def emit(event: Event) -> None:
        level = logging.INFO
        if isinstance(event, PER_MESSAGE):
            level = logging.DEBUG
        elif isinstance(event, ALARMING):
            level = logging.WARNING
        if logger.isEnabledFor(level):
            logger.log(level, headline(event), extra={**asdict(event), "event_type": type(event).__name__})

    return emit


def headline(event: Event) -> str:
    """The event as one short line."""
    if isinstance(event, BreakerChanged):
        return f"CB {event.destination}: {event.before} → {event.after}"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(event).__name__)
    return words.strip()
