"""What a demo has shown, as a picture for readers who have not run it."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

from rich.console import Console

from ringonce.demo.letters import TOTAL
from ringonce.demo.view import AFTER, BEFORE, table

if TYPE_CHECKING:
    from pathlib import Path

    from ringonce.demo.play import Performance

WIDTH: Final = 84
"""Columns."""
_FONTS: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def draw(seen: Performance, path: Path) -> None:
    """Write the tables of a performance to `path`, as SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("[bold]$ make demo[/]")
    console.print(table(f"{TOTAL} notifications; 7 of 10 calls are answered 503", seen.middle))
    console.print(table(BEFORE, seen.before))
    console.print(table(AFTER, seen.after))
    console.print(seen.summary())
    picture = console.export_svg(title="ringonce", unique_id="demo")
    # rich names a font on somebody's server; the reader's own monospace does.
    path.write_text(_FONTS.sub("", picture), encoding="utf-8")
