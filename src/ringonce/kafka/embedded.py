"""librdkafka's own mock cluster as a broker for a first look, where neither Java nor a container engine is at hand.

It lives in the memory of the process that starts it, and other processes can connect. What it does not have:

- CreateTopics, DeleteTopics and DescribeConfigs: it hangs up on whoever asks. A topic comes into being with four
  partitions when a client asks for its metadata, and never goes.
- Topic settings: no LogAppendTime, no retention; a partition keeps its last 5 MB or 100,000 records.
- Consumer groups of more than one member that settle reliably; the first member of a group waits three seconds.
- Disks: all is lost when the process ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER_ID: Final = "mockCluster"
"""How the id of every such cluster begins; Kafka's own ids are 16 bytes in base64."""

TIMEOUT: Final = 10.0


def is_embedded(cluster: str | None) -> bool:
    """Whether the cluster with this id is such a one."""
    return str(cluster).startswith(CLUSTER_ID)


@contextmanager
def mock_cluster() -> Iterator[tuple[str, int]]:
    """A cluster of one broker; its host and port, which the system chooses and nobody can.

    The cluster belongs to a client, and ends with it.
    """
    host = Producer({"test.mock.num.brokers": 1})
    (broker,) = host.list_topics(timeout=TIMEOUT).brokers.values()
    try:
        yield broker.host, broker.port
    finally:
        host.flush(0)
