"""The knobs of a mock provider: one frozen value, validated as a whole."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BOMB_BYTES = 200_000_000
"""What a gzip answer unpacks to when BODY_BYTES does not say otherwise."""


class Reset(StrEnum):
    """When the connection is reset (TCP RST)."""

    NEVER = ""
    BEFORE = "before"
    """as soon as the headers are there: the body is not read, nothing is remembered"""
    AFTER = "after"
    """once the body was read, instead of an answer"""
    MID = "mid"
    """in the middle of the answer, after its status line"""


class Dribble(StrEnum):
    """Which part of the answer comes one byte at a time."""

    NEVER = ""
    HEADERS = "headers"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class Faults:
    """How a provider misbehaves; the defaults are a healthy one.

    A knob's name, in the environment and for `POST /chaos`, is its field in capitals.
    """

    fail_rate_503: float = 0.0
    """share of deliveries answered 503, 0 to 1"""
    fail_rate_timeout: float = 0.0
    """share of deliveries that hang for `timeout_hang_sec` and are then answered 504, 0 to 1"""
    timeout_hang_sec: float = 10.0
    """seconds; the default is longer than any sender waits"""
    latency_ms: float = 0.0
    """milliseconds before every answer"""
    retry_after: str = "1"
    """the Retry-After of 503, and of STATUS where it means "try again"; empty: none"""
    status: int | None = None
    """answer every delivery with this status"""
    location: str = "/elsewhere"
    """the Location of a 3xx"""
    hang: bool = False
    """read the body and never answer"""
    reset: Reset = Reset.NEVER
    dribble: Dribble = Dribble.NEVER
    dribble_ms: float = 200.0
    """milliseconds between two dribbled bytes"""
    early_hints: int = 0
    """so many 103 Early Hints before every answer"""
    body_bytes: int | None = None
    """size of an answer's body; unset: a few bytes of JSON"""
    gzip_bomb: bool = False
    """a gzip body, asked for or not, that unpacks to `body_bytes` (200 MB when unset)"""
    dedup: bool = False
    """be a receiver that honours Idempotency-Key: a key already acted on is answered 200 without another act"""

    def changed(self, knobs: Mapping[str, object]) -> Faults:
        """These faults with some knobs turned.

        Args:
            knobs: by name (`FAIL_RATE_503`); values as JSON has them, or as text. None is the knob's default.

        Raises:
            ConfigurationError: naming every unknown knob and every value that is none; nothing was changed.
        """
        values: dict[str, Any] = {}
        wrong: list[str] = []
        for name, value in knobs.items():
            knob = _KNOBS.get(name)
            if knob is None:
                wrong.append(f"{name}: no such knob; there are {', '.join(_KNOBS)}")
                continue
            try:
                values[name.lower()] = _DEFAULTS[name] if value is None else knob(value)
            except ValueError as fault:
                wrong.append(f"{name}: {fault}, not {json.dumps(value, default=str)[:80]}")
        faults = self if wrong else replace(self, **values)
        if faults.fail_rate_503 + faults.fail_rate_timeout > 1:
            wrong.append("FAIL_RATE_503 and FAIL_RATE_TIMEOUT: together at most 1")
        if wrong:
            raise ConfigurationError(wrong)
        return faults

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Faults:
        """The knobs set in an environment; other variables and empty ones are none of our business, RETRY_AFTER apart.

        Raises:
            ConfigurationError: naming every value that is none.
        """
        return cls().changed(
            {
                name: environment[name]
                for name in _KNOBS
                if environment.get(name) or name == "RETRY_AFTER" in environment
            }
        )

    def as_knobs(self) -> dict[str, object]:
        """Every knob by name, as JSON has it."""
        return {field.name.upper(): getattr(self, field.name) for field in fields(self)}


def _number(low: float, high: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                number = float(value)
                if low <= number <= high:
                    return number
        raise ValueError(f"a number from {low:g} to {high:g}")

    return parse


def _whole(low: int, high: int) -> Callable[[object], int]:
    number = _number(low, high)

    def parse(value: object) -> int:
        with suppress(ValueError):
            parsed = number(value)
            if parsed == int(parsed):
                return int(parsed)
        raise ValueError(f"a whole number from {low} to {high}")

    return parse


def _switch(value: object) -> bool:
    match value.lower() if isinstance(value, str) else value:
        case True | "true" | "1" | "yes" | "on":
            return True
        case False | "false" | "0" | "no" | "off" | "":
            return False
        case _:
            raise ValueError("true or false")


def _header(value: object) -> str:
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str) or len(text) > 1000 or not all(" " <= character <= "~" for character in text):  # noqa: PLR2004 - far above any real header
        raise ValueError("a header value of visible ASCII")
    return text


def _choice(kind: type[Reset | Dribble]) -> Callable[[object], Reset | Dribble]:
    def parse(value: object) -> Reset | Dribble:
        try:
            return kind(value or "")  # type: ignore[arg-type] # what is no text is no member either
        except ValueError:
            raise ValueError(f"one of {', '.join(filter(None, kind))}, or empty") from None

    return parse


_rate = _number(0, 1)
_KNOBS: Mapping[str, Callable[[object], Any]] = {
    "FAIL_RATE_503": _rate,
    "FAIL_RATE_TIMEOUT": _rate,
    "TIMEOUT_HANG_SEC": _number(0, 3600),
    "LATENCY_MS": _number(0, 3_600_000),
    "RETRY_AFTER": _header,
    "STATUS": _whole(200, 599),
    "LOCATION": _header,
    "HANG": _switch,
    "RESET": _choice(Reset),
    "DRIBBLE": _choice(Dribble),
    "DRIBBLE_MS": _number(0, 60_000),
    "EARLY_HINTS": _whole(0, 100_000_000),
    "BODY_BYTES": _whole(0, 1 << 30),
    "GZIP_BOMB": _switch,
    "DEDUP": _switch,
}
_DEFAULTS: Mapping[str, Any] = Faults().as_knobs()
