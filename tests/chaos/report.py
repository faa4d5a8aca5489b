"""The table of a long run: what was broken, how often, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN: Final = "<!-- the table begins: written by `make chaos-long` -->"
END: Final = "<!-- the table ends -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One fault's run. `beyond` and `allowed` are acts beyond the first, `recovery` is in seconds."""

    fault: str
    seed: int
    hits: int = 0
    ids: int = 0
    rows: int = 0
    beyond: int = 0
    allowed: int = 0
    recovery: float | None = None
    broken: list[str] = field(default_factory=list)
    """The verdicts that did not hold."""
    lacks: str = ""
    """Why it could not be produced."""

    def as_json(self) -> dict[str, Any]:
        """For the file that is kept."""
        return asdict(self)


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = [
        "| fault | hit | ids in | rows | acts beyond the first (allowed) | recovered after | invariants | seed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.lacks:
            lines.append(f"| {row.fault} | | | | | | cannot be produced here: {row.lacks} | |")
            continue
        recovery = "-" if row.recovery is None else f"{row.recovery:.1f} s"
        held = "all hold" if not row.broken else "; ".join(line.split("  ")[0].strip() for line in row.broken)
        lines.append(
            f"| {row.fault} | {row.hits} | {row.ids} | {row.rows} | {row.beyond} ({row.allowed}) | {recovery}"
            f" | {held} | {row.seed} |"
        )
    return "\n".join(lines)


def write(rows: Sequence[Row], page: Path) -> None:
    """Put the table between its marks in a page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")
