"""A process that outlives the one that started it.

A daemon is known by its pid together with the time at which it began, so that a pid that the system has given to
somebody else in the meantime is never signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from ringonce.stand.errors import StandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# The shell forks the program into the background and prints its pid; the program begins only when it is told to, which
# is after its pid has been recorded. If the recorder dies in between, the pipe ends and nothing is left running.
# Being a grandchild in a session of its own, it is reaped by the system and does not see the terminal's Ctrl-C.
_LAUNCHER = """
exec 3<&0
( read -r go <&3 && exec 3<&- && exec "$@" ) </dev/null >&2 &
echo $!
"""

# A pid comes back only after all others have been used: seconds of slack for a clock that was corrected cost nothing.
_SAME_START_SECONDS = 5.0

POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Account:
    """The system user a daemon runs as, where that is not the caller."""

    name: str


@dataclass(frozen=True, slots=True)
class Daemon:
    """One running (or once running) process: `pid`, and the Unix time in seconds at which it `started`."""

    pid: int
    started: float

    @classmethod
    def launch(
        cls,
        argv: Sequence[str],
        *,
        log: Path,
        record: Callable[[Daemon], None],
        env: Mapping[str, str] | None = None,
        directory: Path | None = None,
        account: Account | None = None,
    ) -> Daemon:
        """Starts `argv` with its output appended to `log`, calling `record` before the program's first instruction."""
        name = account.name if account else None
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            log.open("ab") as output,
            subprocess.Popen(
                ["/bin/sh", "-c", _LAUNCHER, "sh", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=env,
                cwd=directory,
                start_new_session=True,
                user=name,
                group=name,
                extra_groups=[] if account else None,
            ) as shell,
        ):
            if shell.stdin is None or shell.stdout is None:  # pragma: no cover - both were asked for as pipes
                raise StandError("the launching shell has no pipes")
            line = shell.stdout.readline()
            if not line.strip().isdigit():
                raise StandError.with_log(f"{argv[0]} could not be launched", log)
            daemon = cls(int(line), psutil.Process(int(line)).create_time())
            record(daemon)
            shell.stdin.write(b"go\n")
        return daemon

    def process(self) -> psutil.Process | None:
        """The process, or None when it has ended, waits only to be reaped, or is somebody else by now."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started) < _SAME_START_SECONDS
            return found if same and not _ended(found) else None
        except psutil.NoSuchProcess:
            return None

    @property
    def alive(self) -> bool:
        """Whether it still runs; a stopped (SIGSTOP) process counts as running."""
        return self.process() is not None

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone; nothing happens when it is gone."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def pause(self, grace: float = 10.0) -> None:
        """SIGSTOP to the process and all it has started; returns when every one of them stands still."""
        members = self._hold()
        for member in members:
            _send(member, signal.SIGSTOP)
        deadline = time.monotonic() + grace
        while not all(_still(member) for member in members):
            if time.monotonic() > deadline:
                raise StandError(f"process {self.pid} does not stand still after SIGSTOP")
            time.sleep(POLL_SECONDS)

    def resume(self) -> None:
        """SIGCONT to the process and all it has started."""
        for member in self._hold():
            _send(member, signal.SIGCONT)

    def stop(self, grace: float, how: signal.Signals = signal.SIGTERM) -> None:
        """Asks it to end with the signal `how`; after `grace` seconds it and its children are killed."""
        self.resume()
        self.send(how)
        if not self.wait_gone(grace):
            self.kill()

    def kill(self, grace: float = 10.0) -> None:
        """SIGKILL to the process and all it has started; returns when every one of them is gone."""
        members = self._hold()
        for member in members:
            _send(member, signal.SIGKILL)
        deadline = time.monotonic() + grace
        while not all(_ended(member) for member in members):
            if time.monotonic() > deadline:
                raise StandError(f"process {self.pid} survives SIGKILL")
            time.sleep(POLL_SECONDS)

    def wait_gone(self, seconds: float) -> bool:
        """Waits until the process has ended; False when it has not within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _hold(self) -> list[psutil.Process]:
        """The process, stopped, and all it has started; stopped, or a child forked meanwhile would be missed."""
        process = self.process()
        if process is None:
            return []
        try:
            process.suspend()
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def _still(process: psutil.Process) -> bool:
    try:
        return process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return True


def _ended(process: psutil.Process) -> bool:
    """Whether nothing of it is left but an entry in the process table.

    The first thread of a killed JVM is a zombie while the others still hold its ports: only the last one's end counts.
    """
    try:
        return not process.is_running() or (process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return True


def _send(process: psutil.Process, number: signal.Signals) -> None:
    """Signals a process that may end at any moment."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
