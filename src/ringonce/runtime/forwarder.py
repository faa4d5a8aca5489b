"""Publishes a record's copy to its next topic, bytes unchanged, and says when it is durable.

A publish of unknown fate is repeated, and the offset waits; nothing else would keep both promises, "nothing is lost"
and "bytes in are bytes out".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ringonce.domain.outcome import Outcome, describe, http_status
from ringonce.kafka import headers as names
from ringonce.kafka.port import PublishFailed, PublishUncertain
from ringonce.kafka.port import Unpublishable as CannotPublish
from ringonce.observe.events import Forwarded, Unpublishable
from ringonce.runtime.hold import Hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.domain.disposition import Forward
    from ringonce.kafka.port import Headers, Publisher
    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.work import Work

AGAIN: Final = 1.0
"""Seconds before a publish that was refused or went unanswered is repeated."""


class Forwarder:
    """Forwards for one channel.

    Args:
        publisher: acks=all.
        topic_of: the topic of a stage.
        clock: for header times.
        emit: told of holds.
        allowed: whether the work is still ours; asked right before each publish.
        settled: called for work whose copy is acknowledged.
        unpublishable: called for work whose copy can never be published.
        abandoned: called for work that is no longer ours to forward.
    """

    def __init__(
        self,
        publisher: Publisher,
        topic_of: Callable[[str], str],
        clock: Clock,
        emit: Emit,
        *,
        allowed: Callable[[Work], bool],
        settled: Callable[[Work], None],
        unpublishable: Callable[[Work, str], None],
        abandoned: Callable[[Work], None],
    ) -> None:
        self._publisher = publisher
        self._topic_of = topic_of
        self._clock = clock
        self._emit = emit
        self._allowed = allowed
        self._settled = settled
        self._unpublishable = unpublishable
        self._abandoned = abandoned
        self._hold = Hold("broker", clock, emit)
        self.pending = 0

    @property
    def held(self) -> bool:
        """Whether the broker takes nothing."""
        return self._hold.lasting

    def forward(self, work: Work, to: Forward, cause: Outcome | str | None) -> None:
        """Publish the copy; `cause` is what is written down as the error."""
        self.pending += 1
        self._publish(work, to, self._headers(work, to, cause))

    def _headers(self, work: Work, to: Forward, cause: Outcome | str | None) -> Headers:
        hints, now = work.envelope.hints, self._clock.now()
        stays = to.reason.spends_nothing
        since = hints.deferred_since or (now if stays else None)
        topic = work.record.partition.topic
        changes: dict[str, str | None] = {
            names.ORIGIN: str(work.envelope.origin),
            names.RETRY_COUNT: str(hints.retry_count + (0 if stays or not work.spent else 1)),
            names.ATTEMPTS: str(work.attempts),
            names.DEFERRED_SINCE: None if since is None else names.millis(since),
            names.ERROR_TIMESTAMP: names.millis(now),
            names.ORIGINAL_TOPIC: hints.original_topic or topic,
            names.PREVIOUS_TOPIC: topic,
            names.FORWARD_REASON: to.reason.value,
        }
        if cause is not None:
            text = cause if isinstance(cause, str) else describe(cause)
            status = None if isinstance(cause, str) else http_status(cause)
            changes[names.ERROR_CLASS] = "Rejected" if isinstance(cause, str) else type(cause).__name__
            changes[names.ERROR_MESSAGE] = names.one_line(text)
            changes[names.ERROR_STATUS] = None if status is None else str(status)
        if work.maybe_reached:
            changes[names.MAYBE_REACHED] = "true"
        return names.replace(work.record.headers, changes)

    def _publish(self, work: Work, to: Forward, headers: Headers) -> None:
        if not self._allowed(work):
            self.pending -= 1
            self._abandoned(work)
            return
        record = work.record
        self._publisher.publish(
            self._topic_of(to.stage),
            record.key,
            record.value,
            headers,
            lambda failure: self._published(work, to, headers, failure),
            # The record's own: the broker has taken it before. Ours may be wrong, and a broker refuses what lies more
            # than an hour ahead of its own clock, for good.
            max(0, record.timestamp_ms),
        )

    def _published(self, work: Work, to: Forward, headers: Headers, failure: PublishFailed | None) -> None:
        match failure:
            case None:
                self.pending -= 1
                self._hold.over()
                self._emit(Forwarded(work.envelope.identity.id, work.trace_id, to.stage, to.reason))
                self._settled(work)
            case CannotPublish():
                self.pending -= 1
                self._emit(Unpublishable(work.envelope.identity.id, to.stage, failure.detail))
                self._unpublishable(work, failure.detail)
            case PublishUncertain() | PublishFailed():
                self._hold.lasts(failure.detail, self.pending)
                asyncio.get_running_loop().call_later(AGAIN, self._publish, work, to, headers)
