"""What README does by hand, done: its commands, read from it, in one shell, each checked for what it shows.

`make walkthrough` runs it; it is not among the tests, because it uses the ports that README's commands use.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from tests.fixtures.waiting import eventually

from ringonce.channels.registry import CHANNELS
from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.fixtures.waiting import T

pytestmark = [pytest.mark.broker, pytest.mark.database]

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 90.0
SEEDED: Final = 100
"""How many notifications `make seed` makes when it is not told."""


def commands(readme: str) -> list[str]:
    """The lines of the shell blocks of README's manual section, without their comments."""
    section = readme.partition("\nBy hand, ")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+#.*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


class Shell:
    """One bash with job control, as in a terminal; what background jobs log goes to `log`.

    Args:
        environment: what it is told.
        log: standard error of everything.
    """

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log

    async def __aenter__(self) -> Self:
        with self._log.open("wb") as log:
            self._bash = await asyncio.create_subprocess_exec(
                *("bash", "--norc", "--noprofile", "-m"),
                cwd=ROOT,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave no job behind, however far the walk has come."""
        left = psutil.Process(self._bash.pid).children(recursive=True) if self._bash.returncode is None else []
        for process in left:
            if "make" not in process.name():  # make waits for what it has started
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(psutil.wait_procs, left, 30)
        with suppress(ProcessLookupError):
            self._bash.kill()
        await self._bash.wait()

    async def run(self, command: str) -> str:
        """Give it a line; what that has written to standard output. It has to succeed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n--- %s\\n' $?\n".encode())
        found: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while True:
                line = (await self._bash.stdout.readline()).decode()
                assert line, f"the shell has ended; {self.trouble()}"
                if line.startswith("--- "):
                    assert line == "--- 0\n", f"{command}: {line}{''.join(found)}{self.trouble()}"
                    return "".join(found).strip()
                found.append(line)

    def trouble(self) -> str:
        """The end of the log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])

    def events(self, kind: str, role: str = "") -> list[dict[str, Any]]:
        """The events of a class that the roles have logged, of all or of one role."""
        lines = self._log.read_text(errors="replace").splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [event for event in found if event.get("event_type") == kind and role in ("", event.get("role"))]


Counts = dict[str, Counter[str]]
"""Rows by channel and status."""


class Walk:
    """Does one command after the other, and knows what each has to show after those before it."""

    def __init__(self, shell: Shell, kafka: str) -> None:
        self._shell = shell
        self._kafka = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        self._rows: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._last: Counts = {}
        self._jobs: Counter[str] = Counter()
        """How often each role was started."""
        self._failing = False
        self._refusing: set[str] = set()
        self.done: Counter[str] = Counter()
        self._steps: dict[str, Callable[[str, re.Match[str]], Awaitable[None]]] = {
            r"make up": self._up,
            r"make db-init topic-create-all": self._prepare,
            r'(make run-[a-z-]+( SENDER_FLAGS="[^"]*")? &( |$))+': self._start,
            r"make seed(?: SEED_MESSAGES=(\d+))?": self._seed,
            r"make db-history": self._history,
            r"make chaos-fail-50": self._fail,
            r"\S+ mocks chaos --only (\w+) STATUS=400": self._refuse,
            r"\S+ mocks chaos LATENCY_MS=\d+": self._slow,
            r"make chaos-clear": self._clear,
            r"make mock-stats": self._stats,
            r"make replay CHANNEL=(\w+)": self._replay,
            r"kill \$\(jobs -p '%make run-(\w+-sender)'\)": self._stop,
            r"kill \$\(jobs -p\); wait": self._stop_all,
            r"make down": self._down,
        }

    async def step(self, command: str) -> None:
        """One command of README."""
        for pattern, step in self._steps.items():
            match = re.fullmatch(pattern, command)
            if match:
                await step(command, match)
                self.done[pattern] += 1
                return
        pytest.fail(f"README says {command!r}, and nobody here knows what that shows")

    def left_out(self) -> list[str]:
        """What README has not shown."""
        return [pattern for pattern in self._steps if not self.done[pattern]]

    async def _until(self, look: Callable[[], T]) -> T:
        return await eventually(look, PATIENCE, so_far=self._shell.trouble)

    async def _up(self, command: str, _: re.Match[str]) -> None:
        text = await self._shell.run(command)
        assert text.startswith("native stand (as asked)"), text
        up = [line.split()[0] for line in text.splitlines() if " up " in line]
        assert up == ["kafka-1", "postgres", "mock-firebase", "mock-apns", "mock-webhook"], text

    async def _prepare(self, command: str, _: re.Match[str]) -> None:
        text = await self._shell.run(command)
        assert "applied 0001" in text
        assert text.count("created ") == 4 * len(CHANNELS) + 2, text

    async def _start(self, command: str, _: re.Match[str]) -> None:
        await self._shell.run(command)
        for target in re.findall(r"make run-([a-z-]+)", command):
            role = "router" if target == "router" else target
            self._jobs[role] += 1
            await self._until(partial(self._started, role))

    def _started(self, role: str) -> bool:
        return len(self._shell.events("Started", role)) == self._jobs[role]

    async def _seed(self, command: str, match: re.Match[str]) -> None:
        count = int(match[1] or SEEDED)
        text = await self._shell.run(command)
        assert text.startswith(f"published {count} notifications as seed-"), text
        for number, name in enumerate(CHANNELS):
            share = len(range(number, count, len(CHANNELS)))
            self._rows[name] += share
            self._dead[name] += share if name in self._refusing else 0

    async def _history(self, command: str, _: re.Match[str]) -> None:
        """Asked again, as a person would, until everything has come to its end."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._last = _counts(await self._shell.run(command))
                if {name: found.total() for name, found in self._last.items()} == self._rows:
                    break
        assert {status for found in self._last.values() for status in found} <= {"delivered", "dlq"}
        for name, found in self._last.items():
            assert found["dlq"] >= self._dead[name], self._last
            assert self._failing or found["dlq"] == self._dead[name], self._last
            assert found["delivered"] > 0, self._last

    async def _fail(self, command: str, _: re.Match[str]) -> None:
        await self._for_all(command, "FAIL_RATE_503=0.5")
        self._failing = True  # some may be dead from now on, and nobody can say which

    async def _refuse(self, command: str, match: re.Match[str]) -> None:
        assert await self._shell.run(command) == f"{match[1]}: STATUS=400"
        self._refusing.add(match[1])

    async def _slow(self, command: str, _: re.Match[str]) -> None:
        await self._for_all(command, command.rpartition(" ")[2])

    async def _clear(self, command: str, _: re.Match[str]) -> None:
        await self._for_all(command, "healthy")
        self._refusing.clear()

    async def _for_all(self, command: str, said: str) -> None:
        assert (await self._shell.run(command)).splitlines() == [f"{name}: {said}" for name in CHANNELS]

    async def _stats(self, command: str, _: re.Match[str]) -> None:
        head, *lines = (line.split() for line in (await self._shell.run(command)).splitlines())
        assert [line[0] for line in lines] == list(CHANNELS)
        for line in lines:
            seen = {column: int(cell) for column, cell in zip(head[1:], line[1:], strict=True)}
            assert seen["requests"] >= seen["acts"] == seen["keys"] == self._last[line[0]]["delivered"]
            assert seen["duplicates"] == 0

    async def _replay(self, command: str, match: re.Match[str]) -> None:
        dead = self._last[match[1]]["dlq"]
        assert dead > 0, "nothing to replay"
        assert await self._shell.run(command) == f"replayed {dead}, skipped 0"
        self._rows[match[1]] += dead

    async def _stop(self, command: str, match: re.Match[str]) -> None:
        """In mid-load: what it has not done is done by its successors."""
        await self._shell.run(command)
        [stopped] = await self._until(lambda: self._shell.events("Stopped", match[1]))
        assert stopped["left"] == 0
        channel = match[1].removesuffix("-sender")
        now = _counts(await self._shell.run("make db-history"))
        assert now[channel].total() < self._rows[channel], "there was no load any more"

    async def _stop_all(self, command: str, _: re.Match[str]) -> None:
        await self._until(self._shared)
        await self._shell.run(command)
        assert [event["role"] for event in self._shell.events("Stopped") if event["left"]] == []
        assert len(self._shell.events("Stopped")) == self._jobs.total()

    def _shared(self) -> bool:
        """Whether of each role that was started again two run now, and both have a part of the main topic."""
        stopped = {event["node"] for event in self._shell.events("Stopped")}
        for role in (role for role, number in self._jobs.items() if number > 1):
            nodes = {event["node"] for event in self._shell.events("Started", role)} - stopped
            [described] = self._kafka.describe_consumer_groups([role]).values()
            main = f"notification-{role.removesuffix('-sender')}"
            holders = {
                member.client_id
                for member in described.result(30).members
                if member.assignment and any(place.topic == main for place in member.assignment.topic_partitions)
            }
            if len(nodes) != 2 or holders != nodes:
                return False
        return True

    async def _down(self, command: str, _: re.Match[str]) -> None:
        text = await self._shell.run(command)
        assert text.startswith("stopped: "), text
        assert await self._shell.run(command) == "nothing was running"


def _counts(text: str) -> Counts:
    """What `ringonce history` has printed."""
    found: Counts = {}
    for line in text.splitlines()[1:]:
        channel, status, rows = line.split()
        found.setdefault(channel, Counter())[status] = int(rows)
    return found


def _environment(folder: Path) -> dict[str, str]:
    """A native stand of its own, with Kafka's jars from the checkout's."""
    jars = ROOT / ".stand" / "jars"
    jars.mkdir(parents=True, exist_ok=True)
    stand = folder / "stand"
    stand.mkdir()
    (stand / "jars").symlink_to(jars)
    kafka = free_port()
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", str(folder)),
        "STAND": "native",
        "RINGONCE_STAND_DIRECTORY": str(stand),
        "RINGONCE_STAND_KAFKA_PORT": str(kafka),
        "RINGONCE_STAND_POSTGRES_PORT": str(free_port(but=[kafka])),
    }


async def test_readme_by_hand(tmp_path: Path) -> None:
    """Every command of the section, in its order."""
    found = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found[:1] == ["make up"], "README's manual section begins otherwise"
    environment = _environment(tmp_path)
    async with Shell(environment, tmp_path / "log") as shell:
        walk = Walk(shell, f"127.0.0.1:{environment['RINGONCE_STAND_KAFKA_PORT']}")
        try:
            for command in found:
                print(f"$ {command}")  # noqa: T201 - shown where it stops
                await walk.step(command)
        finally:
            await shell.run("make down")
            await shell.run(".venv/bin/ringonce stand down --purge")
    assert walk.left_out() == []
