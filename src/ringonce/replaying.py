"""Puts together what reads a DLQ: a replay, its preview, and a look at dead letters. Beside `bootstrap`, for people."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ringonce.bootstrap import check_topics
from ringonce.configured import channel_specs, membership_of
from ringonce.domain.stages import DLQ, Stage
from ringonce.errors import ConfigurationError
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.reader import BoundedReader
from ringonce.kafka.settings import ProducerSettings
from ringonce.kafka.topics import TopicAdmin, TopicNames
from ringonce.runtime.clock import SystemClock
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.letters import open_letter
from ringonce.runtime.order import EVERYTHING
from ringonce.runtime.preview import Preview
from ringonce.runtime.replay import Means, Replay, begin
from ringonce.runtime.sieve import Sieve
from ringonce.store.replays import Replays, Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ringonce.channels.registry import ChannelRow
    from ringonce.runtime.letters import DeadLetter
    from ringonce.runtime.order import Order
    from ringonce.runtime.replay import Progress
    from ringonce.settings import RoleSettings, StoreSettings


def run_replay(
    settings: StoreSettings,
    row: ChannelRow,
    order: Order = EVERYTHING,
    stop: threading.Event | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Replay a DLQ up to its present end, a named replay's up to the end that it had when that began.

    The DLQ is the channel's, or the router's where the order fixes the channel of what came without one. `tell` hears
    how far it has come; what is returned is not finished where `stop` came first.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    stop = stop or threading.Event()
    with _replay_of(settings, row, order) as (owner, replays, reader):
        replays.alone(owner, order.name)
        found = replays.find(owner, order.name) if order.name else None
        order, progress = begin(order, found, reader)
        if progress.finished:
            return progress
        if order.name and found is None:
            chosen = order.selection
            standing = Standing(order.asked(), chosen.since, chosen.until, reader.ends, progress.positions)
            replays.begin(owner, order.name, standing)
        sieve = _surveyed(row, order, replays, reader, progress, stop)

        def keep(progress: Progress) -> None:
            if order.name:
                counts = (progress.published, {str(verdict): number for verdict, number in progress.verdicts.items()})
                replays.save(owner, order.name, progress.positions, counts, done=progress.finished)
            if order.name or order.plain:
                reader.commit(progress.positions)
            tell(progress)

        producer = KafkaProducer(ProducerSettings(settings.kafka_bootstrap, settings.node_id))
        topic = TopicNames(settings.topic_prefix).stage(row.name, order.to)
        means = Means(reader, producer, topic, SystemClock(), Failpoints.from_environment(os.environ))
        tell(progress)
        Replay(means, sieve, progress, limit=order.limit, rate=order.rate, keep=keep).run(stop)
    return progress


def preview_replay(
    settings: StoreSettings, row: ChannelRow, order: Order, stop: threading.Event
) -> tuple[Preview, Progress]:
    """What `run_replay` would do, and how far it has come before; changes nothing.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    with _replay_of(settings, row, order) as (owner, replays, reader):
        order, progress = begin(order, replays.find(owner, order.name) if order.name else None, reader)
        preview = Preview(SystemClock().now())
        if not progress.finished:
            sieve = _surveyed(row, order, replays, reader, progress, stop)
            preview.look(reader, sieve, progress, order.limit, stop)
    return preview, progress


@contextmanager
def _replay_of(settings: StoreSettings, row: ChannelRow, order: Order) -> Iterator[tuple[str, Replays, BoundedReader]]:
    """Whose DLQ it is, the database, and the DLQ as the replay's group sees it."""
    names = TopicNames(settings.topic_prefix)
    owner, source = ("router", names.entry_dlq) if order.rules.fix else (row.name, names.stage(row.name, DLQ))
    try:
        target = row.ladder.stage(order.to)
    except KeyError:
        target = Stage(order.to, retired=True)
    if target.retired:
        active = ", ".join(stage.name for stage in row.ladder.consumed() if not stage.retired)
        raise ConfigurationError([f"{row.name} has no stage {order.to!r} to replay to; it has {active}"])
    touched = {source, names.stage(row.name, target.name)}
    check_topics(settings, [spec for spec in channel_specs(names, row) if spec.name in touched])
    group = f"{owner}-replay-{order.name}" if order.name else f"{owner}-replay"
    with (
        Replays(settings.database_url.get_secret_value()) as replays,
        BoundedReader(membership_of(settings, group), source) as reader,
    ):
        yield owner, replays, reader


def _surveyed(
    row: ChannelRow,
    order: Order,
    replays: Replays,
    reader: BoundedReader,
    progress: Progress,
    stop: threading.Event,
) -> Sieve:
    """The replay's sieve, which has seen what each root has in the DLQ."""
    source = None if order.rules.fix else row.channel
    sieve = Sieve(source, order.selection, order.rules, partial(replays.past, row.name), SystemClock())
    reader.seek(progress.positions if order.plain else reader.lows)
    sieve.survey(reader, progress.positions, stop)
    progress.total = progress.seen + sieve.wanted
    return sieve


def dead_letters(settings: RoleSettings, row: ChannelRow | None) -> Iterator[DeadLetter]:
    """Everything in a channel's DLQ, or in the router's where `row` is None, up to its present end.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    with _dlq(settings, row) as reader:
        reader.seek(reader.lows)
        while (batch := reader.next(500)) is not None:
            now = SystemClock().now()
            for record in batch:
                yield open_letter(record, None if row is None else row.channel, now)


def dead_letter_at(settings: RoleSettings, row: ChannelRow | None, partition: int, offset: int) -> DeadLetter | None:
    """The dead letter at a place, if there is one.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    with _dlq(settings, row) as reader:
        reader.limit({partition: offset + 1})
        reader.seek({partition: offset})
        while (batch := reader.next(1)) is not None:
            for record in batch:
                if record.offset == offset:
                    return open_letter(record, None if row is None else row.channel, SystemClock().now())
    return None


def _dlq(settings: RoleSettings, row: ChannelRow | None) -> BoundedReader:
    names = TopicNames(settings.topic_prefix)
    topic = names.entry_dlq if row is None else names.stage(row.name, DLQ)
    TopicAdmin(settings.kafka_bootstrap).require(topic)
    return BoundedReader(membership_of(settings, f"{'router' if row is None else row.name}-replay"), topic)
