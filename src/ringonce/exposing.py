"""Puts together what a process shows of itself on its metrics port: /metrics, /healthz and /readyz."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from ringonce.errors import ServerUnreachable
from ringonce.kafka.topics import TopicAdmin
from ringonce.observe.exposition import CONTENT_TYPE, Exposition
from ringonce.observe.metrics import Metric, Sample
from ringonce.observe.server import Page, PageServer
from ringonce.store.port import StoreAway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ringonce.observe.health import Health
    from ringonce.observe.metrics import Source
    from ringonce.settings import RoleSettings
    from ringonce.store.postgres import PostgresStore

ANSWER: Final = 2.0
"""Seconds within which a server has to answer whoever asks for readiness."""


@contextmanager
def exposed(
    settings: RoleSettings, role: str, channel: str, sources: Sequence[Source], health: Health
) -> Iterator[Mapping[str, Callable[[], float]]]:
    """Serve the pages for as long as the block lasts, where a port is set; gives the server's beat for a watchdog.

    Raises:
        ConfigurationError: the port cannot be listened on.
    """
    if settings.metrics_port is None:
        yield {}
        return
    labels = (role, channel, settings.node_id, version("ringonce"))

    def about() -> Iterator[Sample]:
        yield Sample(Metric.INFO, labels, 1)
        for part, age in health.ages().items():
            yield Sample(Metric.BEAT_AGE, (part,), age)

    exposition = Exposition([*sources, about])
    pages = {
        "/metrics": lambda: Page(200, CONTENT_TYPE, exposition.page()),
        "/healthz": health.alive,
        "/readyz": health.ready,
    }
    with PageServer(settings.metrics_host, settings.metrics_port, pages) as server:
        yield {"the metrics server": lambda: server.beat}


class BrokerProbe:
    """Asks whether a broker answers, with a client of its own that is made for the first question."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin: TopicAdmin | None = None

    def __call__(self) -> str:
        """What is wrong, or nothing."""
        self._admin = self._admin or TopicAdmin(self._bootstrap, ANSWER)
        try:
            self._admin.brokers()
        except ServerUnreachable:
            return "it does not answer"
        return ""


class DatabaseProbe:
    """Asks, from another thread, whether the database answers; `loop` is the store's."""

    def __init__(self, store: PostgresStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    def __call__(self) -> str:
        """What is wrong, or nothing."""
        asking = asyncio.run_coroutine_threadsafe(self._store.ping(), self._loop)
        try:
            asking.result(ANSWER)
        except FutureTimeout:
            asking.cancel()
            return "it does not answer in time"
        except (StoreAway, RuntimeError):  # RuntimeError: the loop has just been closed
            return "it does not answer"
        return ""


def either(*needs: Callable[[], str]) -> Callable[[], str]:
    """What is wrong with the first that has something."""

    def look() -> str:
        return next((wrong for need in needs if (wrong := need())), "")

    return look
