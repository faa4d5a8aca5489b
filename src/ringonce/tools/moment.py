"""Moments on the command line."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from ringonce.tools.age import read_age


class Moment(NamedTuple):
    """A point in time, in seconds since the epoch, and how it was typed."""

    at: float
    typed: str


class MomentType(click.ParamType[Moment]):
    """So long ago (``2h``), or a date or time of ISO 8601, in UTC where it names no zone."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        """The moment; an age counts back from now."""
        if isinstance(value, Moment):
            return value
        text = str(value).strip()
        age = read_age(text)
        if age is not None:
            return Moment(time.time() - age, text)
        try:
            found = datetime.fromisoformat(text)
            return Moment((found.replace(tzinfo=UTC) if found.tzinfo is None else found).timestamp(), text)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is neither an age such as 2h or 7d nor a time such as 2026-11-30T12:00", param, ctx)
