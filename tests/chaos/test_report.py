"""The table of a long run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.report import BEGIN, END, Row, table, write

if TYPE_CHECKING:
    from pathlib import Path

FULL = Row("broker is lost", 7, hits=2, ids=100, rows=101, beyond=3, allowed=16, recovery=1.25)


def test_a_row_says_everything() -> None:
    assert table([FULL]).splitlines()[2:] == ["| broker is lost | 2 | 100 | 101 | 3 (16) | 1.2 s | all hold | 7 |"]


def test_what_is_broken_and_what_cannot_be_done_is_said() -> None:
    """Never an empty cell where a figure could be expected."""
    broken = Row("x", 1, broken=["I1  BROKEN  9 ids acknowledged, 1 without a row", "I5  BROKEN  none"])
    missing = Row("y", 0, lacks="there is no compiler")
    text = table([broken, missing])
    assert "| I1; I5 |" in text
    assert "| y | | | | | | cannot be produced here: there is no compiler | |" in text


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nformer\n{END}\nafter\n")
    write([FULL], page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| fault |")
    assert text.endswith(f"{END}\nafter\n")
    assert "former" not in text
    write([FULL], page)
    assert page.read_text() == text


def test_a_row_survives_its_file() -> None:
    """A long run goes on where it stopped."""
    assert Row(**FULL.as_json()) == FULL
