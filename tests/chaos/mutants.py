"""Whether the suite would notice: each mutation is put into a copy of the product, and one short run must turn red.

    python -m tests.chaos.mutants [NAME ...]

A mutation is a piece of text and what stands there instead. Where the text is gone the product has changed, and the
mutation has to follow it: that counts as a failure too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("src", "gen", "tests", "db", "pyproject.toml")
LIMIT: Final = 120.0
"""Seconds after which a run counts as hung; its own load lasts less than 45."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One place."""

    file: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """What somebody might get wrong, and what shows it: a fault of the chaos run, or a test on the real servers."""

    name: str
    edits: tuple[Edit, ...]
    fault: str = ""
    test: str = ""

    def command(self, seed: int) -> list[str]:
        """What has to turn red."""
        if self.test:
            return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", self.test]
        return [sys.executable, "-m", "tests.chaos.run", "--brisk", "--only", self.fault, "--seed", str(seed)]


MUTANTS: Final = (
    Mutant(
        "commit the highest offset seen",
        (
            Edit(
                "src/ringonce/domain/ledger.py",
                "return self._open[0] if self._open else self._next",
                "return self._next",
            ),
        ),
        fault="provider hangs",
    ),
    Mutant(
        "gate row before the send, in a transaction of its own",
        (
            Edit(
                "src/ringonce/runtime/gatekeeper.py",
                "            else:\n                work.looked_at = asked_at\n",
                "            else:\n                await self._store.claim(self._consumer, identity.id)\n"
                "                work.looked_at = asked_at\n",
            ),
            Edit(
                "src/ringonce/store/postgres.py",
                "    async def seen(",
                "    async def claim(self, consumer: str, name: str) -> None:\n"
                "        async def insert(connection: AsyncConnection) -> None:\n"
                "            await connection.execute(\n"
                '                "INSERT INTO processed_events "\n'
                "                \"VALUES (%s, %s, now(), 'me') ON CONFLICT DO NOTHING\",\n"
                "                (consumer, name),\n"
                "            )\n\n"
                "        await self._gate.run(insert)\n\n"
                "    async def seen(",
            ),
        ),
        fault="sender kill -9 in A",
    ),
    Mutant(
        "no epoch: what a partition's former tenure finished counts for the present one",
        (
            Edit("src/ringonce/runtime/pipeline.py", "not work.tenure.closed and not self.consumer.stale()", "True"),
            Edit(
                "src/ringonce/kafka/consumer.py",
                "return monotonic() - self.last_poll > self._settings.certain",
                "return False",
            ),
        ),
        test="tests/integration/test_zombie.py::test_a_zombie_forwards_and_commits_nothing_for_what_it_has_lost",
    ),
    Mutant(
        "half-open without limit",
        (
            Edit(
                "src/ringonce/runtime/breaker.py",
                "return not self.closed and not self._probing and self._clock.monotonic() >= self._retry_at",
                "return not self.closed and self._clock.monotonic() >= self._retry_at",
            ),
        ),
        fault="provider 100 % 503",
    ),
    Mutant(
        "3xx counted as success",
        (Edit("src/ringonce/domain/classify.py", "200 <= status < 300", "200 <= status < 400"),),
        fault="provider redirects",
    ),
    Mutant(
        "forward without waiting for the delivery report",
        (
            Edit(
                "src/ringonce/runtime/forwarder.py",
                "            lambda failure: self._published(work, to, headers, failure),\n",
                "            lambda failure: None,\n",
            ),
            Edit(
                "src/ringonce/runtime/forwarder.py",
                "            max(0, record.timestamp_ms),\n        )\n",
                "            max(0, record.timestamp_ms),\n        )\n"
                "        self._published(work, to, headers, None)\n",
            ),
        ),
        test="tests/integration/test_bad_input.py::test_a_record_whose_forward_is_too_large_ends_as_a_row",
    ),
    Mutant(
        "the breaker counts what the provider rejects",
        (
            Edit(
                "src/ringonce/runtime/sender.py",
                "lane.gate.delivered(ok=not is_failure(outcome), cause=describe(outcome))",
                "lane.gate.delivered(ok=isinstance(outcome, Delivered), cause=describe(outcome))",
            ),
        ),
        fault="provider rejects",
    ),
)


def mutate(mutant: Mutant, copy: Path) -> list[str]:
    """Change the copy; what could not be found there."""
    lost = []
    for edit in mutant.edits:
        file = copy / edit.file
        text = file.read_text()
        if text.count(edit.before) != 1:
            lost.append(f"{edit.file} does not have {edit.before!r} once")
        file.write_text(text.replace(edit.before, edit.after))
    return lost


def run(mutant: Mutant, seed: int) -> tuple[int, str]:
    """The run's exit code and what it has printed; 0 means that the suite has not noticed."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        lost = mutate(mutant, copy)
        if lost:
            return 0, "\n".join(lost)
        (copy / ".stand").mkdir()
        (copy / ".stand" / "jars").symlink_to(ROOT / ".stand" / "jars")
        path = os.pathsep.join(str(copy / part) for part in ("src", "gen", "."))
        process = subprocess.Popen(
            mutant.command(seed),
            cwd=copy,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            text, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.terminate()
            text, _ = process.communicate()
            return 0, f"{text}\nno end after {LIMIT:g} s"
        return process.returncode, text


@click.command()
@click.argument("names", nargs=-1)
@click.option("--seed", type=int, default=1, show_default=True)
def main(names: tuple[str, ...], seed: int) -> None:
    """Let every mutation, or those that contain one of NAMES, be found out."""
    survived = []
    for mutant in MUTANTS:
        if names and not any(name in mutant.name for name in names):
            continue
        started = time.monotonic()
        code, text = run(mutant, seed)
        red = [line for line in text.splitlines() if line.startswith(("RED ", "FAILED "))]
        if code != 1 or not red:
            survived.append(mutant.name)
            click.echo(text)
        verdict = "found" if mutant.name not in survived else "SURVIVED"
        click.echo(f"{verdict}: {mutant.name} ({mutant.fault or mutant.test}, {time.monotonic() - started:.0f} s)")
        for line in red:
            click.echo(f"    {line.strip()}")
    if survived:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
