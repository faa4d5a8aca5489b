"""Tests of the runtime run in a loop in which waiting takes no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fakes.clock import FakeClock, VirtualLoop
from tests.fakes.events import Heard

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here gets a virtual loop."""
    return {"virtual": VirtualLoop}


@pytest.fixture
def clock() -> FakeClock:
    """For what needs no loop."""
    return FakeClock()


@pytest.fixture
def heard() -> Heard:
    """What was reported."""
    return Heard()
