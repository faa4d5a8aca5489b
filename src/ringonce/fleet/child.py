"""One child process: started, listened to, and started again when it ends by itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.fleet.plan import Member

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
SETTLED: Final = 30.0
"""Seconds after which a child that ran counts as having started well: its next restart does not wait long."""
GRACE: Final = 25.0
"""Seconds between asking a child to stop and killing it: more than a role needs to drain."""
LONGEST_LINE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Ended:
    """A child has ended for good: nobody asked it to, and starting it again would not help; or it was asked to."""

    member: Member
    code: int
    asked: bool


class Child:
    """Keeps one member running.

    Args:
        member: what is run.
        environment: what it is told.
        say: given each line that it writes, and what happens to it.
    """

    def __init__(self, member: Member, environment: Mapping[str, str], say: Callable[[Member, str], None]) -> None:
        self.member = member
        self._environment = environment
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._stop = asyncio.Event()
        self.restarts = 0

    async def run(self) -> Ended:
        """Run until `stop`, or until the child ends with exit code 3: what is wrong with its settings stays wrong."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while True:
            started = loop.time()
            code = await self._once()
            if self._stop.is_set():
                return Ended(self.member, code, asked=True)
            if code == ConfigurationError.exit_code:
                return Ended(self.member, code, asked=False)
            pause = FIRST_PAUSE if loop.time() - started >= SETTLED else min(pause * 2, LONGEST_PAUSE)
            self._say(self.member, f"ended with {_meaning(code)}; starting again in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
                return Ended(self.member, code, asked=True)
            self.restarts += 1

    async def _once(self) -> int:
        # A session of its own: Ctrl-C in a terminal reaches this process alone, which then stops its children in order.
        process = self._process = await asyncio.create_subprocess_exec(
            *self.member.command,
            env=dict(self._environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        if self._stop.is_set():
            process.terminate()
        await self._listen(process)
        return await process.wait()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for, above
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # a line longer than the limit: the rest of it follows as the next one
                continue
            if not line:
                return
            self._say(self.member, line.decode(errors="replace").rstrip())

    async def stop(self) -> None:
        """Ask the child to stop, and see that it does."""
        self._stop.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), GRACE)
        except TimeoutError:
            self._say(self.member, f"did not stop within {GRACE:g} s and is killed; what it held comes again")
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def _meaning(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
