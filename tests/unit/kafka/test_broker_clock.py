"""What one record tells of a broker's clock."""

from __future__ import annotations

import pytest

from ringonce.kafka.broker_clock import Reading, read_clocks
from ringonce.kafka.embedded import mock_cluster


@pytest.mark.parametrize(
    ("appended", "skew"),
    [(100.0, 0.0), (100.2, 0.0), (100.5, 0.0), (107.5, 7.0), (95.0, -5.0)],
)
def test_the_skew_is_the_least_that_explains_the_reading(appended: float, skew: float) -> None:
    """Between our two looks at the clock the append may have been at any time."""
    assert Reading(1, sent=100.0, appended=appended, acknowledged=100.5).skew == pytest.approx(skew)


def test_an_embedded_broker_is_not_asked() -> None:
    """It hangs up on whoever wants to make a topic."""
    with mock_cluster() as (host, port):
        assert read_clocks(f"{host}:{port}") == []
