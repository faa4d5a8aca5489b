"""Asks a Kafka broker, over a bare socket, which brokers it knows.

A Metadata request is what every client begins with. An open port or an answer to ApiVersions is not enough: a broker
gives both before the controller has admitted it, and clients would see a cluster without brokers.
"""

from __future__ import annotations

import socket
import struct

_METADATA, _VERSION, _CORRELATION, _CLIENT = 3, 1, 7, b"stand"
_NO_TOPICS = 0
_TIMEOUT_SECONDS = 2.0


def known_brokers(host: str, port: int) -> frozenset[int]:
    """The node ids of the live brokers in the eyes of the one at this address; empty when it does not answer."""
    header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(_CLIENT)) + _CLIENT
    request = header + struct.pack(">i", _NO_TOPICS)
    try:
        with socket.create_connection((host, port), _TIMEOUT_SECONDS) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                return _brokers(answer.read(size))
    except (OSError, struct.error):
        return frozenset()


def _brokers(answer: bytes) -> frozenset[int]:
    """Reads the broker list of a Metadata answer, version 1: node id, host, port and rack of each."""
    correlation, count = struct.unpack_from(">ii", answer)
    if correlation != _CORRELATION:
        return frozenset()
    position, nodes = 8, set()
    for _ in range(count):
        node, host_size = struct.unpack_from(">ih", answer, position)
        position += 6 + host_size + 4
        (rack_size,) = struct.unpack_from(">h", answer, position)
        position += 2 + max(rack_size, 0)
        nodes.add(node)
    return frozenset(nodes)
