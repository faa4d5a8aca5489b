"""Ages as they are typed and said."""

from __future__ import annotations

import pytest

from ringonce.tools.age import in_hours, read_age


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("7d", 604_800), ("2w", 1_209_600), (" 1.5 d ", 129_600), ("0s", 0)],
)
def test_ages(text: str, seconds: float) -> None:
    """With a unit up to weeks."""
    assert read_age(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "5", "5ms", "1d12h", "-1d", "1e3d", "nan d", "\N{ARABIC-INDIC DIGIT FIVE}d"])
def test_what_is_no_age(text: str) -> None:
    """A bare number neither."""
    assert read_age(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0h"), (1, "1h"), (3600, "1h"), (86_400, "1d"), (86_401, "25h"), (37 * 86_400, "37d"), (129_600, "36h")],
)
def test_an_age_is_said_as_it_can_be_typed_and_never_too_short(seconds: float, text: str) -> None:
    """In hours, or days where they are whole."""
    assert in_hours(seconds) == text
    assert (read_age(text) or 0.0) >= seconds
