"""The demo itself, scene by scene."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.live import Live

from ringonce.configured import topic_specs
from ringonce.demo.letters import TOTAL, letters
from ringonce.demo.scene import running_fleet
from ringonce.demo.view import table
from ringonce.demo.watch import ChannelView, Watch, total, waiting
from ringonce.domain.disposition import Status
from ringonce.domain.stages import MAIN
from ringonce.errors import RingonceError
from ringonce.kafka.codec import encode
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.settings import ProducerSettings
from ringonce.kafka.topics import TopicAdmin, TopicNames
from ringonce.replaying import run_replay
from ringonce.settings import StoreSettings, load
from ringonce.store.schema import migrate

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from rich.console import Console

    from ringonce.channels.registry import ChannelRow
    from ringonce.demo.scene import Scene
    from ringonce.kafka.port import PublishFailed

FAIL_RATE: Final = 0.7
FRAME: Final = 0.25
DEADLINE: Final = 120.0
PARTITIONS: Final = 3


class DemoFailed(RingonceError):  # noqa: N818 - what happened
    """Something did not come to its end in time."""

    exit_code = 6


@dataclass(frozen=True, slots=True)
class Performance:
    """How the channels stood: while most waited to be tried again, before the replay, and after it."""

    middle: Sequence[ChannelView]
    before: Sequence[ChannelView]
    after: Sequence[ChannelView]

    def summary(self) -> str:
        """The demo's last line, for machines: by root, after the replay."""
        delivered, dead, expired = (
            total(self.after, status) for status in (Status.DELIVERED, Status.DLQ, Status.EXPIRED)
        )
        return f"demo: delivered={delivered} dlq={dead} expired={expired} total={TOTAL} lost={self.lost}"

    @property
    def lost(self) -> int:
        """Notifications that have come to no end."""
        return TOTAL - total(self.after)


class Play:
    """One performance on one scene."""

    def __init__(self, scene: Scene, rows: Sequence[ChannelRow], console: Console) -> None:
        self._scene = scene
        self._rows = rows
        self._console = console
        self._settings = load(StoreSettings, kafka_bootstrap=scene.kafka, topic_prefix="", database_url=scene.database)
        self._names = TopicNames()
        self._middle: Sequence[ChannelView] = ()

    def run(self) -> Performance:
        """Everything, from the first notification to the last replay.

        Raises:
            DemoFailed: something did not come to its end in time.
        """
        migrate(self._scene.database)
        TopicAdmin(self._scene.kafka).create(topic_specs(self._settings, self._rows), PARTITIONS)
        for mock in self._scene.mocks.values():
            mock.chaos(FAIL_RATE_503=FAIL_RATE, RETRY_AFTER="")
        with running_fleet(self._scene) as fleet, Watch(self._scene, self._rows, self._names) as watch:
            self._seed()
            before = self._follow(
                fleet,
                watch,
                f"{TOTAL} notifications; 7 of 10 calls are answered 503",
            )
            for mock in self._scene.mocks.values():
                mock.chaos(reset=True)
            replayed = sum(run_replay(self._settings, row).published for row in self._rows)
            after = self._follow(
                fleet,
                watch,
                f"replaying {replayed} dead letters; the providers are healthy",
            )
        return Performance(self._middle, before, after)

    def _seed(self) -> None:
        producer = KafkaProducer(ProducerSettings(self._scene.kafka, "ringonce-demo"))
        failures: list[PublishFailed | None] = []
        for letter in letters(self._rows, secrets.token_hex(3), time.time_ns()):
            producer.publish(self._names.entry, letter.user_id.encode(), encode(letter), [], failures.append)
        if producer.flush(30.0) or any(failure is not None for failure in failures):
            raise DemoFailed("the broker did not take all notifications")

    def _follow(self, fleet: subprocess.Popen[bytes], watch: Watch, title: str) -> list[ChannelView]:
        """Show what goes on until every notification has its row and nothing is on its way."""
        deadline = time.monotonic() + DEADLINE
        views = watch.look()
        with Live(table(title, views), console=self._console, auto_refresh=False, transient=True) as live:
            while total(views) < TOTAL or waiting(views):
                if fleet.poll() is not None:
                    raise DemoFailed(f"the fleet has ended with exit code {fleet.returncode}; see {self._scene.log}")
                if time.monotonic() > deadline:
                    raise DemoFailed(
                        f"after {DEADLINE:g} s {total(views)} of {TOTAL} have ended and {waiting(views)} records are on"
                        f" their way; see {self._scene.log}"
                    )
                time.sleep(FRAME)
                views = watch.look()
                self._middle = max(self._middle, views, key=deferred)
                live.update(table(title, views), refresh=True)
        return views


def deferred(views: Sequence[ChannelView]) -> int:
    """Records in the retry stages."""
    return sum(waits for view in views for stage, waits in view.stages.items() if stage != MAIN)
