"""The composition root: the one place that names concrete classes and puts a role together.

Everything is checked before anything is consumed: settings, broker, topics, database and schema.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ringonce.channels.http_httpx import HttpxHttp
from ringonce.channels.http_pyreqwest import PyreqwestHttp
from ringonce.channels.registry import CHANNELS, ChannelRow
from ringonce.channels.relay import BadTarget, BodyFormat, Relay
from ringonce.domain.attempt import Kept
from ringonce.domain.stages import DLQ, MAIN, Stage
from ringonce.errors import ConfigurationError, WorkLeftBehind
from ringonce.kafka.consumer import GroupConsumer
from ringonce.kafka.offsets import skip_backlog
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.reader import BoundedReader
from ringonce.kafka.settings import ConsumerSettings, ProducerSettings
from ringonce.kafka.thread import ConsumerThread, Owner, ProducerThread
from ringonce.kafka.topics import Severity, TopicAdmin, TopicNames, TopicSpec, specs
from ringonce.observe.logs import emit_to
from ringonce.runtime.clock import SystemClock
from ringonce.runtime.dlq import DlqHandler
from ringonce.runtime.dryrun import DryRun
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.letters import open_letter
from ringonce.runtime.lifecycle import Watchdog, require_descriptors
from ringonce.runtime.order import EVERYTHING
from ringonce.runtime.pipeline import DRAIN_DEADLINE, Pipeline, Profile, Surroundings
from ringonce.runtime.preview import Preview
from ringonce.runtime.replay import Means as ReplayMeans
from ringonce.runtime.replay import Replay, begin
from ringonce.runtime.router import Router
from ringonce.runtime.sender import Means, Sender
from ringonce.runtime.sieve import Sieve
from ringonce.settings import (
    ChannelSettings,
    Loader,
    RoleSettings,
    RouterSettings,
    SenderSettings,
    StoreSettings,
    channel_prefix,
)
from ringonce.store.postgres import PostgresStore
from ringonce.store.replays import Replays, Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ringonce.channels.port import HttpPort
    from ringonce.runtime.letters import DeadLetter
    from ringonce.runtime.order import Order
    from ringonce.runtime.replay import Progress

log = logging.getLogger("ringonce")


def channel_row(name: str, rows: Mapping[str, ChannelRow] = CHANNELS) -> ChannelRow:
    """The channel's row.

    Raises:
        ConfigurationError: there is no such channel.
    """
    try:
        return rows[name]
    except KeyError:
        raise ConfigurationError([f"there is no channel {name!r}; there are {', '.join(sorted(rows))}"]) from None


def check_topics(settings: RoleSettings, wanted: Sequence[TopicSpec]) -> None:
    """See that the topics a role touches can carry our promises.

    Raises:
        ServerUnreachable: the broker does not answer.
        ConfigurationError: a topic is missing or unfit.
    """
    findings = TopicAdmin(settings.kafka_bootstrap).check(wanted)
    warnings: dict[str, list[str]] = {}
    for finding in findings:
        if finding.severity is Severity.WARNING:
            warnings.setdefault(finding.text, []).append(finding.topic)
    for text, topics in warnings.items():
        log.warning("each of %d topics %s", len(topics), text, extra={"topics": topics})
    refused = [str(finding) for finding in findings if finding.severity is Severity.REFUSED]
    if refused:
        raise ConfigurationError(refused)


def run_router(settings: RouterSettings, stop: threading.Event, rows: Mapping[str, ChannelRow] = CHANNELS) -> None:
    """Route until `stop` is set.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    require_descriptors()
    names = TopicNames(settings.topic_prefix)
    configured = [channel_row(name, rows) for name in settings.channel_names or rows]
    wanted = [
        spec
        for spec in specs(names, {row.name: row.ladder for row in configured})
        if spec.name in _routed(names, configured)
    ]
    check_topics(settings, wanted)
    producer = KafkaProducer(ProducerSettings(settings.kafka_bootstrap, settings.node_id, linger=0.005))
    clock = SystemClock()
    router = Router(
        {row.channel: names.stage(row.name, MAIN) for row in configured},
        names,
        settings.node_id,
        producer,
        clock,
        emit_to(log),
        Failpoints.from_environment(os.environ),
    )
    membership = _membership(settings, "notification-router")
    with Watchdog({"the router's loop": lambda: router.beat, "fetching": lambda: router.fed}, clock):
        left = router.run(stop, lambda member: GroupConsumer(membership, [names.entry], member))
    if left:
        raise WorkLeftBehind(left)


def _routed(names: TopicNames, rows: Sequence[ChannelRow]) -> set[str]:
    return {names.entry, names.entry_dlq, *(names.stage(row.name, MAIN) for row in rows)}


def _membership(settings: RoleSettings, group: str) -> ConsumerSettings:
    return ConsumerSettings(
        settings.kafka_bootstrap,
        f"{settings.topic_prefix}{group}",
        settings.node_id,
        settings.session_timeout,
        settings.max_poll_interval,
    )


async def run_dlq_recorder(settings: StoreSettings, row: ChannelRow | None, stop: asyncio.Event) -> None:
    """Record a channel's DLQ, or the router's where `row` is None, until `stop` is set.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    require_descriptors()
    names = TopicNames(settings.topic_prefix)
    topic = names.entry_dlq if row is None else names.stage(row.name, DLQ)
    consumer = "router-dlq" if row is None else f"{row.name}-dlq"
    await asyncio.to_thread(check_topics, settings, [spec for spec in _all_specs(names, row) if spec.name == topic])
    profile = Profile(
        consumer, consumer, "" if row is None else row.name, None if row is None else row.channel, {topic: Stage(DLQ)}
    )
    await _run(settings, profile, stop, DlqHandler)


def _all_specs(names: TopicNames, row: ChannelRow | None) -> list[TopicSpec]:
    return specs(names, {} if row is None else {row.name: row.ladder})


async def run_sender(
    settings: SenderSettings,
    channel: ChannelSettings,
    row: ChannelRow,
    stop: asyncio.Event,
    *,
    from_latest: bool = False,
) -> None:
    """Deliver for a channel until `stop` is set.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    require_descriptors(channel.max_in_flight)
    row = with_settings(row, channel)
    names = TopicNames(settings.topic_prefix)
    stages = {names.stage(row.name, stage.name): stage for stage in row.ladder.consumed()}
    relay = make_relay(row, channel)
    touched = {*stages, names.stage(row.name, DLQ)}
    await asyncio.to_thread(check_topics, settings, [spec for spec in _all_specs(names, row) if spec.name in touched])
    consumer = f"{row.name}-sender"
    if from_latest:
        await asyncio.to_thread(skip_backlog, _membership(settings, consumer), names.stage(row.name, MAIN))
    profile = Profile(consumer, consumer, row.name, row.channel, stages)

    def handler(pipeline: Pipeline) -> Sender:
        producer = ProducerThread(
            ProducerSettings(settings.kafka_bootstrap, settings.node_id), asyncio.get_running_loop(), pipeline.failed
        )
        producer.start()
        means = Means(
            relay,
            make_http(channel),
            producer,
            names,
            Random(),  # noqa: S311 - jitter, no secret
            channel.max_in_flight,
            channel.max_attempts,
            channel.breaker_period,
            Kept(settings.attempts),
        )
        return Sender(pipeline, row, means)

    await _run(settings, profile, stop, handler)


def with_settings(row: ChannelRow, channel: ChannelSettings) -> ChannelRow:
    """The channel's row with the delays that were set.

    Raises:
        ConfigurationError: a stage that does not exist, or delays that do not rise.
    """
    try:
        return replace(row, ladder=row.ladder.with_delays(channel.delays))
    except KeyError as error:
        raise ConfigurationError([f"{row.name} has no retry stage {error.args[0]}"]) from None
    except ValueError as error:
        raise ConfigurationError([str(error)]) from None


def make_relay(row: ChannelRow, channel: ChannelSettings) -> Relay:
    """What builds the channel's calls.

    Raises:
        ConfigurationError: the target is no URL, or an allowed host no host:port.
    """
    secret = channel.secret.get_secret_value().encode()
    try:
        return Relay(row, channel.target, secret, BodyFormat(channel.body), channel.allow_hosts)
    except BadTarget as error:
        raise ConfigurationError([f"{channel_prefix(row.name)}TARGET or ALLOW_HOSTS: {error}"]) from None


def make_http(channel: ChannelSettings) -> HttpPort:
    """The HTTP client that was chosen."""
    return PyreqwestHttp() if channel.http_client == "pyreqwest" else HttpxHttp()


async def _run(
    settings: StoreSettings, profile: Profile, stop: asyncio.Event, make_handler: Callable[[Pipeline], Any]
) -> None:
    store = PostgresStore(settings.database_url.get_secret_value(), f"ringonce-{profile.role}")
    await store.open()
    clock = SystemClock()
    try:
        around = Surroundings(settings.node_id, store, clock, emit_to(log), Failpoints.from_environment(os.environ))
        pipeline = Pipeline(profile, around, partial(_consumer, settings, profile))
        pipeline.attach(make_handler(pipeline))
        with Watchdog(_beats(pipeline), clock):
            left = await pipeline.run(stop)
    finally:
        await store.close()
    if left:
        raise WorkLeftBehind(left)


def _beats(pipeline: Pipeline) -> dict[str, Callable[[], float]]:
    return {
        "the event loop": lambda: pipeline.beat,
        "the poll loop": lambda: pipeline.consumer.beat,
        "eligible work": lambda: pipeline.progress,
        "fetching": lambda: pipeline.consumer.fed,
    }


def _consumer(settings: RoleSettings, profile: Profile, owner: Owner) -> ConsumerThread:
    delays = {topic: stage.delay for topic, stage in profile.stages.items() if stage.delay}
    return ConsumerThread(
        _membership(settings, profile.consumer),
        list(profile.stages),
        delays,
        owner,
        asyncio.get_running_loop(),
        DRAIN_DEADLINE,
    )


def run_dry(
    settings: StoreSettings,
    channel: ChannelSettings,
    row: ChannelRow,
    show: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Show what a sender would do with every record that is there and that comes, until `stop` is set.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    row = with_settings(row, channel)
    names = TopicNames(settings.topic_prefix)
    stages = {names.stage(row.name, stage.name): stage.name for stage in row.ladder.consumed()}
    check_topics(settings, [spec for spec in _all_specs(names, row) if spec.name in stages])
    membership = _membership(settings, f"{row.name}-dry-run-{settings.node_id}")
    dry_run = DryRun(row, stages, make_relay(row, channel), SystemClock(), show)
    dry_run.run(stop, lambda member: GroupConsumer(membership, list(stages), member))


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
        means = ReplayMeans(reader, producer, topic, SystemClock(), Failpoints.from_environment(os.environ))
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
    check_topics(settings, [spec for spec in _all_specs(names, row) if spec.name in touched])
    group = f"{owner}-replay-{order.name}" if order.name else f"{owner}-replay"
    with (
        Replays(settings.database_url.get_secret_value()) as replays,
        BoundedReader(_membership(settings, group), source) as reader,
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
    return BoundedReader(_membership(settings, f"{'router' if row is None else row.name}-replay"), topic)


def sender_settings(
    channel: str, flags: Mapping[str, Any], channel_flags: Mapping[str, Any], faults: Sequence[str] = ()
) -> tuple[SenderSettings, ChannelSettings]:
    """Both parts of a sender's settings; `faults` have been found before.

    Raises:
        ConfigurationError: everything that is missing or wrong in either.
    """
    loader = Loader()
    loader.faults += faults
    settings = loader.load(SenderSettings, flags)
    of_channel = loader.load(ChannelSettings, channel_flags, channel_prefix(channel))
    if of_channel is not None:
        for check in (with_settings, make_relay):
            try:
                check(channel_row(channel), of_channel)
            except ConfigurationError as error:
                loader.faults += error.faults
    loader.check()
    assert settings is not None and of_channel is not None  # noqa: S101, PT018 - check() has raised otherwise
    return settings, of_channel


def topic_specs(settings: RoleSettings, rows: Collection[ChannelRow]) -> list[TopicSpec]:
    """Every topic of the fleet."""
    return specs(TopicNames(settings.topic_prefix), {row.name: row.ladder for row in rows})
