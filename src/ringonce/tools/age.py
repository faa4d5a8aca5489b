"""Lengths of time on the command line, up to weeks."""

from __future__ import annotations

import re
from typing import Any, Final

import click

UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
LONGEST: Final = 36_525 * 86_400.0
"""A hundred years in seconds: no database has rows as old, and few can subtract much more from today."""

_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smhdw])", re.ASCII)


def read_age(text: str) -> float | None:
    """Seconds: ``90s``, ``30m``, ``2h``, ``7d``, ``2w``; None when it is none of these."""
    match = _AGE.fullmatch(text.strip())
    return None if match is None else float(match[1]) * UNITS[match[2]]


def in_hours(seconds: float) -> str:
    """An age as it can be typed, never less than it is: ``37d`` or ``25h``."""
    hours = -int(-seconds // 3600)
    return f"{hours}h" if hours % 24 or not hours else f"{hours // 24}d"


class Age(click.ParamType[float]):
    """A length of time with its unit."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float):
            return value
        seconds = read_age(str(value))
        if seconds is None:
            self.fail(f"{str(value)!r} is not a length of time such as 12h, 40d or 6w", param, ctx)
        if seconds > LONGEST:
            self.fail(f"{str(value)!r} is more than a hundred years", param, ctx)
        return seconds
