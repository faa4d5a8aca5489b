"""One connection through a proxy, and the words for what may be done to it."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

RST: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing throws away what is unsent and says so."""


class Mode(StrEnum):
    """What the proxy does with connections."""

    PASS = "pass"  # noqa: S105 - no password
    DELAY = "delay"
    DEAF = "deaf"
    RESET = "reset"
    REFUSE = "refuse"
    DROP_REPLIES = "drop-replies"


@dataclass(frozen=True, slots=True)
class Hits:
    """What a mode did: to how many connections (anew after each switch), in how many pieces, of how many bytes."""

    connections: int = 0
    pieces: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """A mode and what it needs to know."""

    mode: Mode
    seconds: float | None = None
    marker: bytes = b""


class Link:
    """A client's connection and, once there is one, its counterpart upstream."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.upstream = socket.socket()
        self.upstream.settimeout(0)
        for end in (self.client, self.upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.task: asyncio.Task[None]
        self.touched: set[Mode] = set()
        """For what it has been counted under the present order."""
        self.tail = b""
        """The end of what the client has said, where a marker may begin."""
        self.marked = False
        """Whether replies are to be dropped."""
        self.holed = False
        """Whether some were: what is left of the stream makes no sense to the client."""

    def obey(self, order: Order) -> None:
        """A new order counts, and looks for its marker, from here on."""
        self.touched, self.tail = set(), b""
        self.marked = order.mode is Mode.DROP_REPLIES and not order.marker

    def hear(self, data: bytes, marker: bytes) -> None:
        """Look for the marker in what the client says, however it is cut into pieces."""
        heard = self.tail + data
        self.marked |= marker in heard
        self.tail = heard[max(len(heard) - len(marker) + 1, 0) :]

    def close(self, *, reset: bool) -> None:
        """Close both ends, in order or with an RST."""
        for end in (self.client, self.upstream):
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
            end.close()
