"""Plays the script of one answer after the other on a connection."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from ringonce.mock.script import Pause, Send, Sever, Stand

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from ringonce.mock.memory import Call, Memory
    from ringonce.mock.script import Step

NO_LINGER = struct.pack("ii", 1, 0)


class Piece(NamedTuple):
    """What is played, and who wants to know what became of it."""

    steps: Iterator[Step]
    status: int
    """the status that the steps send, if they send one"""
    call: Call
    memory: Memory
    keep: bool
    """whether the connection stays open after it"""


class Player:
    """Plays one piece at a time: at the pace of its pauses, and no faster than the other side reads.

    Args:
        loop: the running one.
        transport: to play on.
        done: called when a piece was played to its end, with its `keep`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, done: Callable[[bool], None]
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._done = done
        self._piece: Piece | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = True

    @property
    def busy(self) -> bool:
        """Whether a piece is being played."""
        return self._piece is not None

    @property
    def heard(self) -> bool:
        """Whether the other side has the status line of the piece being played."""
        return self._piece is not None and self._piece.call.status is not None

    def play(self, piece: Piece) -> None:
        """Begin a piece; nothing else may be playing."""
        self._piece = piece
        self._go_on()

    def close_after(self) -> None:
        """Let the piece being played be the last."""
        if self._piece is not None:
            self._piece = self._piece._replace(keep=False)

    def hold(self) -> None:
        """The other side reads slowly: write no more for now."""
        self._writable = False

    def resume(self) -> None:
        """It caught up. No pause can be under way: one begins only while writing is allowed, and writes nothing."""
        self._writable = True
        self._go_on()

    def lost(self, *, dedup: bool) -> None:
        """The connection is gone, and with it what was being played."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._piece is not None:
            self._piece.memory.left(self._piece.call, dedup=dedup)
            self._piece = None

    def sever(self) -> None:
        """Close with a reset: that is what the system sends when there is no time to linger."""
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self._transport.abort()

    def _wake(self) -> None:
        self._timer = None
        self._go_on()

    def _go_on(self) -> None:
        # A transport that is closing takes no more; what is left of the piece ends with `lost`.
        while (piece := self._piece) is not None and self._writable and not self._transport.is_closing():
            match next(piece.steps, None):
                case Send(data, head):
                    self._transport.write(data)
                    if head:
                        piece.memory.answered(piece.call, piece.status)
                case Pause(seconds):
                    self._timer = self._loop.call_later(seconds, self._wake)
                    return
                case Sever():
                    self.sever()
                    return
                case Stand():
                    return
                case None:
                    piece.memory.left(piece.call)
                    self._piece = None
                    self._done(piece.keep)
                    return
