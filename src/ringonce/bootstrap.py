"""The composition root: the one place that names concrete classes and puts a role together.

Everything is checked before anything is consumed: settings, broker, topics, database and schema.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ringonce.carriers import kit_of
from ringonce.channels.registry import CATALOGUE, CHANNELS, ChannelRow
from ringonce.domain.attempt import Kept
from ringonce.domain.semantics import (
    BadSemantics,
    OnExhausted,
    OnRefused,
    Semantics,
    calls_per_stage,
    declared,
)
from ringonce.domain.stages import DLQ, MAIN, Stage
from ringonce.errors import ConfigurationError, WorkLeftBehind
from ringonce.exposing import BrokerProbe, DatabaseProbe, either, exposed
from ringonce.kafka.consumer import GroupConsumer
from ringonce.kafka.offsets import skip_backlog
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.settings import ConsumerSettings, ProducerSettings
from ringonce.kafka.thread import ConsumerThread, Owner, ProducerThread
from ringonce.kafka.topics import Severity, TopicAdmin, TopicNames, TopicSpec, specs
from ringonce.observe.health import Health
from ringonce.observe.logs import emit_to
from ringonce.observe.meter import Meter
from ringonce.observe.metrics import ROUTER
from ringonce.observe.tracing import Tracing, tracing
from ringonce.runtime.clock import SystemClock
from ringonce.runtime.dlq import DlqHandler
from ringonce.runtime.dryrun import DryRun
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.instruments import PipelineInstruments, RouterInstruments, tell_endings
from ringonce.runtime.lifecycle import Watchdog, require_descriptors
from ringonce.runtime.pipeline import DRAIN_DEADLINE, Handler, Pipeline, Profile, Surroundings
from ringonce.runtime.router import Router
from ringonce.runtime.sender import Means, Sender
from ringonce.settings import (
    DeliverySettings,
    Loader,
    RoleSettings,
    RouterSettings,
    SemanticsSettings,
    SenderSettings,
    StoreSettings,
    channel_prefix,
)
from ringonce.store.postgres import PostgresStore
from ringonce.store.postgres_claims import PostgresClaims
from ringonce.traced import TracedCarrier, publishing, trace_rows

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping, Sequence


log = logging.getLogger("ringonce")


def channel_row(name: str, rows: Mapping[str, ChannelRow] = CATALOGUE) -> ChannelRow:
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


def run_router(settings: RouterSettings, stop: threading.Event, rows: Mapping[str, ChannelRow] | None = None) -> None:
    """Route until `stop` is set; `rows` are the channels there are, and those of a fleet without any named.

    Raises:
        RingonceError: see `ringonce.errors`.
    """
    require_descriptors()
    names = TopicNames(settings.topic_prefix)
    known, usual = (CATALOGUE, CHANNELS) if rows is None else (rows, rows)
    configured = [channel_row(name, known) for name in settings.channel_names or usual]
    wanted = [
        spec
        for spec in specs(names, {row.name: row.ladder for row in configured})
        if spec.name in _routed(names, configured)
    ]
    check_topics(settings, wanted)
    producer = KafkaProducer(ProducerSettings(settings.kafka_bootstrap, settings.node_id, linger=0.005))
    clock = SystemClock()
    meter = None if settings.metrics_port is None else Meter(ROUTER)
    router = Router(
        {row.channel: names.stage(row.name, MAIN) for row in configured},
        names,
        settings.node_id,
        producer,
        clock,
        emit_to(log) if meter is None else meter.beside(emit_to(log)),
        Failpoints.from_environment(os.environ),
    )
    membership = membership_of(settings, "notification-router")
    beats: dict[str, Callable[[], float]] = {"the router's loop": lambda: router.beat, "fetching": lambda: router.fed}
    with ExitStack() as stack:
        spans = stack.enter_context(tracing(settings.tracing, ROUTER, settings.node_id))
        if spans is not None:
            producer.traced = publishing(spans)
        if meter is not None:
            producer.timed = meter.produce_seconds.observe
            topics = {names.stage(row.name, MAIN): row.name for row in configured}
            instruments = RouterInstruments(router, meter, topics)
            broker = either(instruments.broker_held, BrokerProbe(settings.kafka_bootstrap))
            health = Health(beats, {"assigned": instruments.unassigned, "kafka": broker})
            sources = (meter.samples, instruments.samples)
            beats = {**beats, **stack.enter_context(exposed(settings, ROUTER, ROUTER, sources, health))}
        stack.enter_context(Watchdog(beats, clock))
        left = router.run(stop, lambda member: GroupConsumer(membership, [names.entry], member))
    if left:
        raise WorkLeftBehind(left)


def _routed(names: TopicNames, rows: Sequence[ChannelRow]) -> set[str]:
    return {names.entry, names.entry_dlq, *(names.stage(row.name, MAIN) for row in rows)}


def membership_of(settings: RoleSettings, group: str) -> ConsumerSettings:
    """A membership of the group, which is given the topics' prefix."""
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
    await asyncio.to_thread(check_topics, settings, [spec for spec in channel_specs(names, row) if spec.name == topic])
    profile = Profile(
        consumer, consumer, "" if row is None else row.name, None if row is None else row.channel, {topic: Stage(DLQ)}
    )
    await _run(settings, profile, stop, lambda pipeline, *_: DlqHandler(pipeline))


def channel_specs(names: TopicNames, row: ChannelRow | None) -> list[TopicSpec]:
    """The topics of one channel and of the router, or of the router alone."""
    return specs(names, {} if row is None else {row.name: row.ladder})


async def run_sender(
    settings: SenderSettings,
    channel: DeliverySettings,
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
    kit = kit_of(row)
    kit.build(row, channel)
    semantics = semantics_of(row, channel)
    touched = {*stages, names.stage(row.name, DLQ)}
    await asyncio.to_thread(
        check_topics, settings, [spec for spec in channel_specs(names, row) if spec.name in touched]
    )
    consumer = f"{row.name}-sender"
    if from_latest:
        await asyncio.to_thread(skip_backlog, membership_of(settings, consumer), names.stage(row.name, MAIN))
    profile = Profile(consumer, consumer, row.name, row.channel, stages)
    database_url = settings.database_url.get_secret_value()
    claims = PostgresClaims(database_url, f"ringonce-{consumer}", consumer, row.name, settings.node_id)

    def handler(pipeline: Pipeline, meter: Meter | None, spans: Tracing | None) -> Sender:
        producer = ProducerThread(
            ProducerSettings(settings.kafka_bootstrap, settings.node_id), asyncio.get_running_loop(), pipeline.failed
        )
        if meter is not None:
            producer.watch(meter.produce_seconds.observe)
        carrier = kit.carry(row, channel, pipeline.around.clock.now)
        if spans is not None:
            producer.trace(publishing(spans))
            carrier = TracedCarrier(carrier, spans, row, kit.places(channel)[0])
        producer.start()
        means = Means(
            carrier,
            producer,
            names,
            Random(),  # noqa: S311 - jitter, no secret
            channel.max_in_flight,
            calls_of(semantics, channel),
            channel.breaker_period,
            Kept(settings.attempts),
            semantics,
            claims,
        )
        return Sender(pipeline, row, means)

    try:
        await _run(settings, profile, stop, handler)
    finally:
        await claims.close()


def with_settings(row: ChannelRow, channel: DeliverySettings) -> ChannelRow:
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


def semantics_of(row: ChannelRow, channel: SemanticsSettings) -> Semantics:
    """What the channel promises: as declared, or its protocol's own.

    Raises:
        ConfigurationError: it cannot be read, or not be kept over the channel's protocol.
    """
    refused, exhausted = OnRefused(channel.on_refused), OnExhausted(channel.on_exhausted)
    try:
        return declared(row.protocol.name, channel.semantics, refused, exhausted)
    except BadSemantics as error:
        raise ConfigurationError([f"{channel_prefix(row.name)}SEMANTICS: {error}"]) from None


def calls_of(semantics: Semantics, channel: DeliverySettings) -> int:
    """Provider calls within one stage: as set, or the semantics' own."""
    return calls_per_stage(semantics, channel.max_attempts if "max_attempts" in channel.model_fields_set else None)


async def _run(
    settings: StoreSettings,
    profile: Profile,
    stop: asyncio.Event,
    make_handler: Callable[[Pipeline, Meter | None, Tracing | None], Handler],
) -> None:
    meter = None if settings.metrics_port is None else Meter(profile.name or ROUTER)
    url = settings.database_url.get_secret_value()
    store = PostgresStore(url, f"ringonce-{profile.role}", None if meter is None else meter.asked)
    await store.open()
    clock = SystemClock()
    emit = emit_to(log) if meter is None else meter.beside(emit_to(log))
    try:
        around = Surroundings(settings.node_id, store, clock, emit, Failpoints.from_environment(os.environ))
        pipeline = Pipeline(profile, around, partial(_consumer, settings, profile))
        beats = _beats(pipeline)
        with ExitStack() as stack:
            spans = stack.enter_context(tracing(settings.tracing, profile.role, settings.node_id))
            handler = make_handler(pipeline, meter, spans)
            pipeline.attach(handler)
            if meter is not None:
                instruments = PipelineInstruments(pipeline, handler, meter, clock)
                health = _health(settings, beats, instruments, store)
                sources = (meter.samples, instruments.samples)
                beats |= stack.enter_context(exposed(settings, profile.role, meter.channel, sources, health))
            if log.isEnabledFor(logging.DEBUG):
                tell_endings(pipeline)
            if spans is not None:
                trace_rows(pipeline.recorder, spans, profile.name or ROUTER, clock)
            stack.enter_context(Watchdog(beats, clock))
            left = await pipeline.run(stop)
    finally:
        await store.close()
    if left:
        raise WorkLeftBehind(left)


def _health(
    settings: RoleSettings,
    beats: Mapping[str, Callable[[], float]],
    instruments: PipelineInstruments,
    store: PostgresStore,
) -> Health:
    needs = {
        "assigned": instruments.unassigned,
        "kafka": either(instruments.broker_held, BrokerProbe(settings.kafka_bootstrap)),
        "database": either(instruments.database_held, DatabaseProbe(store, asyncio.get_running_loop())),
    }
    return Health(beats, needs, {"breakers": lambda: dict(instruments.breakers())})


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
        membership_of(settings, profile.consumer),
        list(profile.stages),
        delays,
        owner,
        asyncio.get_running_loop(),
        DRAIN_DEADLINE,
    )


def run_dry(
    settings: StoreSettings,
    channel: DeliverySettings,
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
    check_topics(settings, [spec for spec in channel_specs(names, row) if spec.name in stages])
    membership = membership_of(settings, f"{row.name}-dry-run-{settings.node_id}")
    dry_run = DryRun(row, stages, kit_of(row).build(row, channel), SystemClock(), show)
    dry_run.run(stop, lambda member: GroupConsumer(membership, list(stages), member))


def sender_settings(
    channel: str, flags: Mapping[str, Any], channel_flags: Mapping[str, Any], faults: Sequence[str] = ()
) -> tuple[SenderSettings, DeliverySettings]:
    """Both parts of a sender's settings; `faults` have been found before.

    Raises:
        ConfigurationError: everything that is missing or wrong in either.
    """
    loader = Loader()
    loader.faults += faults
    settings = loader.load(SenderSettings, flags)
    row = channel_row(channel)
    kit = kit_of(row)
    of_channel = loader.load(kit.settings, channel_flags, channel_prefix(channel))
    # Without the rest too: whoever has to set a target shall not have to come back for the semantics.
    alone = Loader().load(SemanticsSettings, channel_flags, channel_prefix(channel))
    checks: list[Callable[[], object]] = [] if alone is None else [lambda: semantics_of(row, alone)]
    if of_channel is not None:
        checks += [lambda: with_settings(row, of_channel), lambda: kit.build(row, of_channel)]
    for check in checks:
        try:
            check()
        except ConfigurationError as error:
            loader.faults += error.faults
    loader.check()
    assert settings is not None and of_channel is not None  # noqa: S101, PT018 - check() has raised otherwise
    return settings, of_channel


def topic_specs(settings: RoleSettings, rows: Collection[ChannelRow]) -> list[TopicSpec]:
    """Every topic of the fleet."""
    return specs(TopicNames(settings.topic_prefix), {row.name: row.ladder for row in rows})
