"""The composition root: the one place that names concrete classes and puts a role together.

Everything is checked before anything is consumed: settings, broker, topics, database and schema.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import ExitStack, nullcontext
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from ringonce.carriers import kit_of
from ringonce.channels.registry import CATALOGUE, CHANNELS, ChannelRow
from ringonce.configured import calls_of, channel_row, channel_specs, membership_of, semantics_of, with_settings
from ringonce.domain.attempt import Kept
from ringonce.domain.stages import DLQ, MAIN, Stage
from ringonce.errors import ConfigurationError, WorkLeftBehind
from ringonce.exposing import BrokerProbe, DatabaseProbe, either, exposed
from ringonce.kafka.consumer import GroupConsumer
from ringonce.kafka.offsets import skip_backlog
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.settings import ProducerSettings
from ringonce.kafka.thread import ConsumerThread, Owner, ProducerThread
from ringonce.kafka.topics import Severity, TopicAdmin, TopicNames, TopicSpec, specs
from ringonce.observe.health import Health
from ringonce.observe.logs import emit_to
from ringonce.observe.meter import Meter
from ringonce.observe.metrics import ROUTER
from ringonce.observe.tracing import Tracing, tracing
from ringonce.runtime.affinity import Affinity
from ringonce.runtime.clock import SystemClock
from ringonce.runtime.dlq import DlqHandler
from ringonce.runtime.dryrun import DryRun
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.instruments import PipelineInstruments, RouterInstruments, tell_endings
from ringonce.runtime.lifecycle import Watchdog, require_descriptors
from ringonce.runtime.pipeline import DRAIN_DEADLINE, Handler, Pipeline, Profile, Surroundings
from ringonce.runtime.router import Router
from ringonce.runtime.sender import Means, Sender
from ringonce.store.postgres import PostgresStore
from ringonce.store.postgres_claims import PostgresClaims
from ringonce.traced import TracedCarrier, publishing, trace_rows

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ringonce.settings import (
        DeliverySettings,
        RoleSettings,
        RouterSettings,
        SenderSettings,
        StoreSettings,
    )


log = logging.getLogger("ringonce")


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
        with Affinity() if settings.one_core == "auto" else nullcontext():
            await _run(settings, profile, stop, handler)
    finally:
        await claims.close()


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
