"""Counting dead letters."""

from __future__ import annotations

import pytest
from tests.fakes.clock import EPOCH
from tests.fakes.letters import letter

from ringonce.runtime.tally import Tally, bucket

HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("age", "name"),
    [(-5, "1h"), (0, "1h"), (HOUR - 1, "1h"), (HOUR, "1d"), (DAY, "7d"), (7 * DAY - 1, "7d"), (7 * DAY, "older")],
)
def test_buckets(age: float, name: str) -> None:
    """A clock that is ahead makes a letter young."""
    assert bucket(age) == name


def test_counts_by_cause_and_age() -> None:
    """The most frequent cause first; what headers do not say is null."""
    tally = Tally(EPOCH + 2 * HOUR)
    for one in (
        letter(b"\xff", error_class="", error_status="", forward_reason=""),
        letter(),
        letter(maybe_reached="true", error_timestamp=str(int((EPOCH + HOUR + 1) * 1000))),
    ):
        tally.add(one)
    assert tally.json() == {
        "total": 3,
        "undecodable": 1,
        "maybe_reached": 1,
        "causes": [
            {
                "error_class": "Refused",
                "reason": "exhausted",
                "status": 503,
                "total": 2,
                "ages": {"1h": 1, "1d": 1, "7d": 0, "older": 0},
            },
            {
                "error_class": None,
                "reason": None,
                "status": None,
                "total": 1,
                "ages": {"1h": 0, "1d": 1, "7d": 0, "older": 0},
            },
        ],
    }
