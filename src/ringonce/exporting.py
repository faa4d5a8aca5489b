"""Puts the exporter together: the fleet's ages, lags and rows as they are seen from outside."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ringonce.configured import channel_row, with_settings
from ringonce.domain.stages import DLQ, Stage
from ringonce.exposing import exposed
from ringonce.kafka.outside import Outside
from ringonce.kafka.topics import TopicNames
from ringonce.observe.health import Health
from ringonce.observe.metrics import ROUTER
from ringonce.runtime.clock import SystemClock
from ringonce.runtime.surveyor import LEISURE, Look, Post, Sight, Surveyor, survey
from ringonce.settings import DeliverySettings, Loader, channel_prefix
from ringonce.store.inquiry import Inquiry
from ringonce.store.schema import Count

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator, Mapping

    from ringonce.channels.registry import ChannelRow
    from ringonce.settings import ExporterSettings

ENTRY = "entry"


def rows_with_delays(names: Iterable[str], flags: Mapping[str, float] | None) -> list[ChannelRow]:
    """The channels with their stages' delays, as their senders have them.

    Raises:
        ConfigurationError: everything that is wrong with them.
    """
    loader = Loader()
    rows = []
    for name in names:
        row = channel_row(name)
        given = {stage: seconds for stage, seconds in (flags or {}).items() if stage in _stages(row)}
        settings = loader.load(DeliverySettings, {"delays": given or None}, channel_prefix(name))
        if settings is not None:
            rows.append(with_settings(row, settings))
    loader.check()
    return rows


def _stages(row: ChannelRow) -> set[str]:
    return {stage.name for stage in row.ladder.retries}


def posts(prefix: str, rows: Iterable[ChannelRow]) -> list[Post]:
    """Every group in each of its topics."""
    names = TopicNames(prefix)
    found = [
        Post(f"{prefix}notification-router", names.entry, ROUTER, ENTRY),
        Post(f"{prefix}router-dlq", names.entry_dlq, ROUTER, DLQ),
    ]
    for row in rows:
        found += [_post(prefix, names, row, stage) for stage in (*row.ladder.consumed(), Stage(DLQ))]
    return found


def _post(prefix: str, names: TopicNames, row: ChannelRow, stage: Stage) -> Post:
    group = f"{row.name}-dlq" if stage.name == DLQ else f"{row.name}-sender"
    return Post(f"{prefix}{group}", names.stage(row.name, stage.name), row.name, stage.name, stage.delay)


@contextmanager
def looks(
    settings: ExporterSettings, rows: Iterable[ChannelRow]
) -> Iterator[tuple[Look[list[Sight]], Look[list[Count]]]]:
    """What looks at Kafka, and what looks at the database; neither has looked yet, and nothing runs by itself."""
    clock = SystemClock()
    watched = posts(settings.topic_prefix, rows)
    url = settings.database_url.get_secret_value()

    def count() -> list[Count]:
        with Inquiry(url) as inquiry:
            return inquiry.ask("history", Count)

    with Outside(settings.kafka_bootstrap, settings.node_id, f"{settings.topic_prefix}ringonce-exporter") as outside:
        interval = settings.exporter_interval
        yield (
            Look("kafka", partial(survey, outside, watched), clock, interval),
            Look("database", count, clock, interval, LEISURE),
        )


def run_exporter(settings: ExporterSettings, rows: Iterable[ChannelRow], stop: threading.Event) -> None:
    """Look and serve until `stop` is set; servers that are away are waited for.

    Raises:
        ConfigurationError: the port cannot be listened on.
    """
    with ExitStack() as stack:
        kafka, database = stack.enter_context(looks(settings, rows))
        surveyor = Surveyor(kafka, database, SystemClock())
        health = Health(
            {"looking at Kafka": lambda: kafka.beat},
            {"kafka": lambda: kafka.trouble, "database": lambda: database.trouble},
        )
        stack.enter_context(exposed(settings, "exporter", "", [surveyor.samples], health))
        stack.enter_context(kafka)
        stack.enter_context(database)
        stop.wait()
