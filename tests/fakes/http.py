"""A provider as the sender sees it: answers by script."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from ringonce.channels.port import Reply, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OK: Final = Reply(200, {})


def answer(status: int, retry_after: str | None = None) -> Reply:
    """An answer with that status."""
    return Reply(status, {} if retry_after is None else {"retry-after": retry_after})


class Hang:
    """No answer: the call ends at its deadline, unless it is cancelled."""


HANG: Final = Hang()
Answer = Reply | Exception | Hang


class Call(NamedTuple):
    """One call as it was made."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    deadline: float
    at: float

    @property
    def key(self) -> str:
        """Its idempotency key."""
        return self.headers["idempotency-key"]


class ScriptedHttp:
    """Implements `HttpPort`: the next answer of the script, else what `always` says.

    An answer takes `latency` seconds.
    """

    def __init__(self, *script: Answer) -> None:
        self.script: deque[Answer] = deque(script)
        self.always: Callable[[Call], Answer] = lambda _: OK
        self.latency = 0.0
        self.calls: list[Call] = []
        self.open = 0
        self.most_open = 0
        self.cancelled = 0
        self.closed = False

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> Reply:
        """See `HttpPort.post`."""
        call = Call(url, dict(headers), body, deadline, asyncio.get_running_loop().time())
        self.calls.append(call)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._answer(self.script.popleft() if self.script else self.always(call), deadline)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    async def _answer(self, answer: Answer, deadline: float) -> Reply:
        if isinstance(answer, Hang) or self.latency >= deadline:
            await asyncio.sleep(deadline)
            raise Unanswered("no answer in time")
        await asyncio.sleep(self.latency)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """See `HttpPort.close`."""
        self.closed = True
