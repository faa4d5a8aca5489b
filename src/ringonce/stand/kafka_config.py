"""The configuration of one broker of the stand: broker and controller in one process (KRaft)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.stand.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Front:
    """A second way into a broker, by way of something in front of it that clients must not get round.

    Whoever comes in at `port`, where the broker listens for it, is told that the broker is at `advertised`.
    """

    port: int
    advertised: int


@dataclass(frozen=True, slots=True)
class Node:
    """One broker: its id, from 1, the port for clients, the port of its controller, its own folder, and a front."""

    id: int
    port: int
    controller_port: int
    folder: Path
    front: Front | None = None

    @property
    def name(self) -> str:
        """Its name in the stand's state."""
        return f"kafka-{self.id}"

    @property
    def data(self) -> Path:
        """Where its log segments are."""
        return self.folder / "data"

    @property
    def new_data(self) -> Path:
        """The same before it is complete."""
        return self.folder / "data.new"


def properties(node: Node, nodes: Sequence[Node], data: Path, extra: Mapping[str, str]) -> str:
    """The text of `server.properties` for `node` in a cluster of `nodes`, with its log in `data`."""
    replicas = min(len(nodes), 3)
    in_sync = max(replicas - 1, 1)
    front = node.front
    settings = {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "controller.quorum.voters": ",".join(f"{each.id}@{LOOPBACK}:{each.controller_port}" for each in nodes),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{node.port},CONTROLLER://{LOOPBACK}:{node.controller_port}"
        + (f",FRONT://{LOOPBACK}:{front.port}" if front else ""),
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{node.port}"
        + (f",FRONT://{LOOPBACK}:{front.advertised}" if front else ""),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,FRONT:PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "num.partitions": 6,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        # A few partitions of the internal topics are enough here, and each costs time at every start.
        "offsets.topic.num.partitions": 8,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A group's first member need not wait for others: tests start members one by one.
        "group.initial.rebalance.delay.ms": 0,
        # Until its session has run out, by default after 9 s, a killed broker is not admitted again and its partitions
        # get no new leaders. One alone may have it shorter: what stalls the broker stalls the controller beside it.
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 3000 if len(nodes) > 1 else 2000,
        # The default reserves 128 MB of a heap that has 512.
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        **extra,
    }
    return "".join(f"{key}={_escaped(str(value))}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    """As a Java properties file wants it: backslashes doubled, everything beyond ASCII as UTF-16 escapes."""
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)  # noqa: PLR2004 - the end of ASCII
