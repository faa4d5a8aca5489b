"""Times on the command line."""

from __future__ import annotations

from typing import Any, Final

import click

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float]):
    """``30s``, ``5m``, ``250ms``; a bare number is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float):
            return value
        text = str(value)
        unit = next((unit for unit in UNITS if text.endswith(unit) and text[: -len(unit)].strip()), "")
        try:
            seconds = float(text[: len(text) - len(unit)]) * UNITS.get(unit, 1.0)
        except ValueError:
            self.fail(f"{text!r} is not a duration such as 2s, 5m or 250ms", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail("a delay must be positive", param, ctx)
        return seconds
