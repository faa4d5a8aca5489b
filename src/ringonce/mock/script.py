"""A plan as the steps a connection takes: bytes to send, pauses, a cut. Pure."""

from __future__ import annotations

import http
import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ringonce.mock.decision import Answer, Cut, Plan, Silence
from ringonce.mock.faults import BOMB_BYTES, Dribble, Faults

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 65_536
"""Bytes of a large body made at a time: a huge answer costs the mock no more memory than a small one."""

CUT_AFTER = 0.02
"""Seconds between the last bytes and the reset in the middle of an answer, so that they are on the wire before it."""

EARLY_HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </hint>; rel=preload\r\n\r\n"
"""An answer that is none (RFC 8297): the real one comes after it."""

BODILESS = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Send:
    """Write `data`; `head` says that the status line and headers are complete with it."""

    data: bytes
    head: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Sever:
    """Reset the connection; nothing comes after it."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Do nothing until the other side leaves; whoever asks on is told the same again."""


Step = Send | Pause | Sever | Stand


def script(plan: Plan, faults: Faults, *, keep: bool = True) -> Iterator[Step]:
    """The steps of a plan.

    Args:
        plan: what the provider decided.
        faults: shape the answer's body and its pace.
        keep: whether the connection stays open after the answer, as its headers must say.
    """
    match plan:
        case Silence():
            while True:
                yield Stand()
        case Cut(wait):
            if wait:
                yield Pause(wait)
            yield Sever()
        case Answer():
            if plan.wait:
                yield Pause(plan.wait)
            yield from _answer(plan, faults, keep=keep)


@lru_cache(maxsize=1024)
def plain(answer: Answer, *, keep: bool = True) -> bytes:
    """The whole of an answer without faults in its shape, as one piece."""
    body = b"" if answer.status in BODILESS else _note(answer)
    return head(answer, len(body), keep=keep) + body


def shaped(faults: Faults) -> bool:
    """Whether the faults change the shape of an answer, so that it needs a script."""
    return (
        faults.gzip_bomb
        or faults.early_hints > 0
        or faults.body_bytes is not None
        or faults.dribble is not Dribble.NEVER
    )


def head(answer: Answer, length: int, *, keep: bool = True, coding: str = "", media: str = "application/json") -> bytes:
    """The status line and headers of an answer whose body has `length` bytes."""
    try:
        phrase = http.HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unassigned"
    lines = [f"HTTP/1.1 {answer.status} {phrase}"]
    if answer.status not in BODILESS:
        lines += [f"Content-Type: {media}", f"Content-Length: {length}"]
    if coding:
        lines.append(f"Content-Encoding: {coding}")
    if answer.retry_after:
        lines.append(f"Retry-After: {answer.retry_after}")
    if answer.location:
        lines.append(f"Location: {answer.location}")
    if not keep:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _answer(answer: Answer, faults: Faults, *, keep: bool) -> Iterator[Step]:
    pieces: Iterator[bytes]
    if answer.status in BODILESS:
        length, coding, pieces = 0, "", iter(())
    elif faults.gzip_bomb:
        bomb = _bomb(BOMB_BYTES if faults.body_bytes is None else faults.body_bytes)
        length, coding, pieces = len(bomb), "gzip", _pieces(bomb)
    elif faults.body_bytes is not None:
        length, coding, pieces = faults.body_bytes, "", _filler(faults.body_bytes)
    else:
        note = _note(answer)
        length, coding, pieces = len(note), "", _pieces(note)
    top = head(answer, length, keep=keep, coding=coding)
    yield from _hints(faults.early_hints)
    if answer.cut:
        # After the status line, so that the other side has an answer without having all of it.
        yield Send(top, head=True)
        if first := next(pieces, b""):
            yield Send(first[: len(first) // 2])
        yield Pause(CUT_AFTER)
        yield Sever()
        return
    pace = faults.dribble_ms / 1000
    if faults.dribble is Dribble.HEADERS:
        yield from _dribbled(top[:-1], pace)
        top = top[-1:]
    yield Send(top, head=True)
    for piece in pieces:
        if faults.dribble is Dribble.BODY:
            yield from _dribbled(piece, pace)
        else:
            yield Send(piece)


def _hints(count: int) -> Iterator[Step]:
    at_once = CHUNK // len(EARLY_HINT)
    for sent in range(0, count, at_once):
        yield Send(EARLY_HINT * min(at_once, count - sent))


def _dribbled(data: bytes, pace: float) -> Iterator[Step]:
    for byte in data:
        yield Send(bytes((byte,)))
        yield Pause(pace)


def _note(answer: Answer) -> bytes:
    said: dict[str, object] = {"status": answer.status}
    if answer.reason:
        said["reason"] = answer.reason
    return json.dumps(said).encode()


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))


def _filler(size: int) -> Iterator[bytes]:
    full, rest = divmod(size, CHUNK)
    for _ in range(full):
        yield b"x" * CHUNK
    if rest:
        yield b"x" * rest


@lru_cache(maxsize=2)
def _bomb(size: int) -> bytes:
    """A gzip stream of one member that unpacks to `size` zeros. Made once, a piece at a time."""
    packer = zlib.compressobj(level=1, wbits=31)
    packed = [packer.compress(bytes(len(piece))) for piece in _filler(size)]
    return b"".join([*packed, packer.flush()])
