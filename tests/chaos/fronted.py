"""A real Kafka with a proxy in front of each broker.

Brokers tell clients where to go on to, so a proxy before the usual port is left behind with the first answer. Here each
broker has a second listener that advertises its proxy: who comes that way stays on it, and the other way stays open for
whoever must see the truth.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.chaos.proxy import Proxy
from tests.fixtures.servers import BROKER_SETTINGS, JARS

from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.kafka_config import Front
from ringonce.stand.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class FrontedKafka:
    """Brokers, and the proxy before each."""

    cluster: KafkaCluster
    proxies: tuple[Proxy, ...]

    @property
    def bootstrap(self) -> str:
        """The way through the proxies; `cluster.bootstrap` is the direct one."""
        return ",".join(proxy.address for proxy in self.proxies)


@contextmanager
def fronted_kafka(directory: Path, brokers: int = 1, **others: Any) -> Iterator[FrontedKafka]:
    """A running cluster of `brokers`, stopped at the end; `others` are of `KafkaCluster`."""
    ports: list[int] = []
    for _ in range(brokers):
        ports.append(free_port(ports))
    with ExitStack() as stack:
        proxies = tuple(stack.enter_context(Proxy(LOOPBACK, port)) for port in ports)
        fronts = [Front(port, proxy.port) for port, proxy in zip(ports, proxies, strict=True)]
        given = {"jars": JARS, "settings": BROKER_SETTINGS, **others}
        cluster = KafkaCluster(directory, brokers, fronts=fronts, **given)
        cluster.start()
        stack.callback(cluster.stop, grace=0)
        yield FrontedKafka(cluster, proxies)
