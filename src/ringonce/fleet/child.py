"""One child process: started, listened to, and started again when it ends by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringonce.errors import ConfigurationError
from ringonce.fleet.tether import tether

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.fleet.plan import Member

USAGE: Final = 2
HOPELESS: Final = frozenset({USAGE, ConfigurationError.exit_code})
"""Exit codes after which starting again would not help: what is wrong with flags or settings stays wrong."""

LONGEST_LINE: Final = 1 << 20
LAST_WORDS: Final = 1.0
"""Seconds for what a child has written before it ended; somebody else may hold its output open for ever."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long children are waited for, in seconds."""

    first_pause: float = 0.5
    """Before the first restart; each further one waits twice as long."""
    longest_pause: float = 30.0
    settled: float = 30.0
    """A child that ran for so long has started well: its next restart counts as the first."""
    grace: float = 40.0
    """Between asking a child to stop and killing it: more than a role needs to drain when everything hangs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A child has ended for good: it was asked to, or nobody asked it to and starting it again would not help."""

    member: Member
    code: int
    asked: bool


class Child:
    """Keeps one member running.

    Args:
        member: what is run.
        environment: what it is told.
        say: given each line that it writes, and what happens to it.
        patience: how long it is waited for.
    """

    def __init__(
        self,
        member: Member,
        environment: Mapping[str, str],
        say: Callable[[Member, str], None],
        patience: Patience | None = None,
    ) -> None:
        self.member = member
        self._environment = environment
        self._say = say
        self._patience = patience or Patience()
        self._asked = asyncio.Event()

    def stop(self) -> None:
        """Let `run` end the child and return."""
        self._asked.set()

    async def run(self) -> Ended:
        """Run until `stop`, or until the child ends in a way that starting it again cannot mend.

        Raises:
            ConfigurationError: there is no such program.
        """
        loop = asyncio.get_running_loop()
        pause = self._patience.first_pause
        while True:
            started = loop.time()
            code = await self._once()
            if self._asked.is_set():
                return Ended(self.member, code, asked=True)
            if code in HOPELESS:
                return Ended(self.member, code, asked=False)
            if loop.time() - started >= self._patience.settled:
                pause = self._patience.first_pause
            self._say(self.member, f"ended with {_meaning(code)}; starting again in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), pause)
                return Ended(self.member, code, asked=True)
            pause = min(pause * 2, self._patience.longest_pause)

    async def _once(self) -> int:
        """Start it, and see it to its end."""
        process = await self._start()
        listening = asyncio.create_task(self._listen(process))
        ended = asyncio.create_task(process.wait())
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self._end(process, ended)
            code = await ended
            await asyncio.wait({listening}, timeout=LAST_WORDS)
        finally:
            for task in (listening, ended, asked):
                task.cancel()
        return code

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            # A session of its own: Ctrl-C in a terminal reaches this process alone, which then stops its children in
            # order. The tether is for when it cannot.
            return await asyncio.create_subprocess_exec(
                *self.member.command,
                env=dict(self._environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=tether(),
                limit=LONGEST_LINE,
            )
        except OSError as error:
            raise ConfigurationError([f"{self.member.command[0]} cannot be started: {error.strerror}"]) from error

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Ask it to stop, and see that it does."""
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await asyncio.wait({ended}, timeout=self._patience.grace)
        if not ended.done():
            grace = self._patience.grace
            self._say(self.member, f"did not stop within {grace:g} s and is killed; what it held comes again")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the session that it leads, and so whatever it has started

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for, above
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                self._say(self.member, f"(more than {LONGEST_LINE} bytes without an end of line, left out)")
                continue
            if not line:
                return
            self._say(self.member, line.decode(errors="replace").rstrip())


def _meaning(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
