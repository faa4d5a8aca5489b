"""The fleet under test: real processes, each at its post, started again by a supervisor when it dies.

Whoever kills one says so before; a death that nobody announced, and every exit with 6, is a finding.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.fixtures.program import KEPT, parse_events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

BIN: Final = Path(sys.executable).parent
LOOK: Final = 0.1
AGAIN: Final = 0.5
"""Seconds before what has died is started again."""
STOPPING: Final = 40.0


@dataclass
class Post:
    """A place in the fleet, and who is at it."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    again_at: float = 0.0
    once: dict[str, str] = field(default_factory=dict)
    """Environment of the next start only."""
    expected: set[int] = field(default_factory=set)
    """Codes with which the present process may end."""

    @property
    def pid(self) -> int:
        """Of the process that is at it now."""
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether somebody is there; a stopped process is."""
        return self.process is not None and self.process.poll() is None


@dataclass(frozen=True, slots=True)
class Death:
    """A process that has ended. `at` in seconds since 1970."""

    post: str
    code: int
    at: float
    expected: bool


class Crew:
    """Starts, watches and restarts.

    Args:
        environment: what every process is told.
        folder: for the logs, one for each post, appended to by whoever is at it.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = dict(environment)
        self._folder = folder
        self._posts: dict[str, Post] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self.deaths: list[Death] = []
        self.starts = 0

    def __getitem__(self, name: str) -> Post:
        return self._posts[name]

    @property
    def logs(self) -> list[Path]:
        """Of every post there ever was."""
        return sorted(self._folder.glob("*.log"))

    def watch(self) -> None:
        """Begin to supervise."""
        self._thread.start()

    def add(self, name: str, *command: str, **environment: str) -> Post:
        """Open a post and start somebody at it."""
        line = [str(BIN / command[0]), *command[1:], "--node-id", name]
        with self._lock:
            post = Post(
                name,
                line,
                {**self._environment, **environment},
                self._folder / f"{name}.log",
            )
            self._posts[name] = post
            self._start(post)
        return post

    def _start(self, post: Post) -> None:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment = {**kept, **post.environment, **post.once}
        post.once = {}
        post.expected = set()
        with post.log.open("ab") as log:
            post.process = subprocess.Popen(
                post.command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.starts += 1

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK):
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            for post in self._posts.values():
                if post.process is not None and post.process.poll() is not None:
                    code = post.process.returncode
                    self.deaths.append(Death(post.name, code, time.time(), code in post.expected))
                    post.process = None
                    post.again_at = now + AGAIN
                if post.process is None and post.wanted and now >= post.again_at:
                    self._start(post)

    # What faults do

    def crash_at(self, name: str, point: str) -> None:
        """End whoever is there at once, and have the next one crash at a failpoint; then others come as usual."""
        with self._lock:
            post = self._posts[name]
            post.once = {"RINGONCE_CRASH_AT": point, "RINGONCE_TESTING": "1"}
            self._end(post, signal.SIGTERM, {0, 5, -signal.SIGKILL})
            post.process = None
            self._start(post)
            post.expected = {-signal.SIGKILL}

    def send(self, name: str, number: signal.Signals, *codes: int) -> None:
        """Signal whoever is there; `codes` are those with which it may end then."""
        with self._lock:
            post = self._posts[name]
            post.expected |= set(codes)
            if post.running:
                post.process.send_signal(number)  # type: ignore[union-attr]

    def kill(self, name: str) -> None:
        """SIGKILL; somebody else comes."""
        self.send(name, signal.SIGKILL, -signal.SIGKILL)

    def close(self, name: str, number: signal.Signals = signal.SIGTERM, codes: Sequence[int] = (0,)) -> int:
        """Close the post: nobody comes after; the code with which the last one ended."""
        with self._lock:
            post = self._posts[name]
            post.wanted = False
            if not post.running:
                return 0
            return self._end(post, number, set(codes))

    def _end(self, post: Post, number: signal.Signals, codes: set[int]) -> int:
        process = post.process
        if process is None:
            return 0
        post.expected |= codes
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        return self._bury(post)

    def _bury(self, post: Post) -> int:
        """Wait for the end of whoever has been told; its code."""
        process = post.process
        assert process is not None
        try:
            code = process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self.deaths.append(Death(post.name, code, time.time(), code in post.expected))
        post.process = None
        return code

    def stop(self) -> None:
        """SIGTERM to everybody at once; each must end with 0."""
        self._stopping.set()
        self._thread.join()
        with self._lock:
            for post in self._posts.values():
                post.wanted = False
                post.expected |= {0}
                if post.running:
                    post.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
                    post.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
            for post in self._posts.values():
                if post.process is not None:
                    self._bury(post)

    def end(self) -> None:
        """Kill whatever still runs."""
        self._stopping.set()
        for post in self._posts.values():
            post.wanted = False
            if post.running:
                post.process.kill()  # type: ignore[union-attr]
                post.process.wait()  # type: ignore[union-attr]

    # What can be seen

    def processes(self) -> dict[str, int]:
        """Process id by post, of those that run."""
        with self._lock:
            return {post.name: post.pid for post in self._posts.values() if post.running}

    def wait_death(self, name: str, code: int, since: float, seconds: float) -> bool:
        """Whether somebody at the post has died with `code` after `since`, waiting up to `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if any(death.post == name and death.code == code and death.at >= since for death in list(self.deaths)):
                return True
            self._stopping.wait(LOOK)
        return False

    def events(self, kind: str, names: Callable[[str], bool] = lambda _: True) -> list[dict[str, Any]]:
        """The events of a class that were logged at all posts whose name passes."""
        return [
            event
            for log in self.logs
            if names(log.stem)
            for event in parse_events(log.read_text(errors="replace"), kind)
        ]

    def unexpected(self) -> list[str]:
        """Deaths that nobody had announced."""
        return [f"{death.post} ended with {death.code}" for death in self.deaths if not death.expected]
