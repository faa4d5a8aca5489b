"""What every test run has: real servers on demand, a clean environment, and no skip that nobody has named."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from tests.fixtures import servers

from ringonce.kafka.embedded import mock_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ringonce.stand.kafka import KafkaCluster
    from ringonce.stand.postgres import PostgresServer

pytest_plugins = ["tests.fixtures.ground"]

OURS: Final = ("RINGONCE_", "KAFKA_BOOTSTRAP", "DATABASE_URL", "PG")
"""How the variables begin that would change what the product does."""


def pytest_configure(config: pytest.Config) -> None:
    """Ends a run that is told to end in order, servers included."""
    config.stash[_unnamed] = []
    config.stash[_left_out] = []
    config.addinivalue_line("markers", "embedded: runs on the embedded broker too, where there can be no real one")
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, _: FrameType | None) -> None:
    pytest.exit(f"signal {number}", returncode=128 + number)


def pytest_report_header() -> list[str]:
    """Which servers the run uses, in its first lines."""
    return [servers.broker_line(), servers.postgres_line()]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips, or with CI=true fails, what is marked as needing a server that cannot be had."""
    if item.get_closest_marker("broker") and not (item.get_closest_marker("embedded") and not servers.in_ci()):
        servers.require(servers.NO_BROKER, servers.kafka_lacks)
    if item.get_closest_marker("database"):
        servers.require(servers.NO_DATABASE, servers.postgres_lacks)


# A run in which tests quietly do not run is not green: with CI=true each skip has to be one that was agreed on.

_unnamed = pytest.StashKey[list[str]]()
_left_out = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Takes note of skips of tests."""
    report = yield
    _note(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Takes note of skips of whole modules."""
    report = yield
    _note(collector.config, report)
    return report


def _note(config: pytest.Config, report: object) -> None:
    if not isinstance(report, pytest.TestReport | pytest.CollectReport) or not report.skipped:
        return
    if hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    name, colon, _ = reason.removeprefix("Skipped: ").partition(":")
    if name == servers.NO_BROKER:
        config.stash[_left_out].append(report.nodeid.partition("::")[0])
    if not colon or name not in servers.NAMED_SKIPS:
        config.stash[_unnamed].append(f"{report.nodeid}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run for skips that nobody has named."""
    if servers.in_ci() and session.config.stash[_unnamed] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says what was left out for want of a broker, and which skips failed the run."""
    left_out = config.stash[_left_out]
    if left_out:
        terminalreporter.section("left out: what needs a real Kafka broker")
        for module, number in sorted(Counter(left_out).items()):
            terminalreporter.line(f"{number:>4}  {module}")
        terminalreporter.line(f"{len(left_out):>4}  tests in all: {servers.kafka_lacks()}")
    if servers.in_ci() and config.stash[_unnamed]:
        terminalreporter.section("skips that nobody has named")
        for line in config.stash[_unnamed]:
            terminalreporter.line(line)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees servers or settings of the caller's."""
    for name in list(os.environ):
        if name.startswith(OURS):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A real broker, one for the run; tests keep apart by topic prefixes and leave it running."""
    cluster = servers.start_kafka(tmp_path_factory.getbasetemp() / "servers")
    yield cluster
    cluster.stop(grace=0)


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the run's broker: the real one, or the embedded one where no real one can be had."""
    if servers.kafka_lacks() and not servers.in_ci():
        with mock_cluster() as (host, port):
            yield f"{host}:{port}"
    else:
        yield request.getfixturevalue("kafka").bootstrap


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A real PostgreSQL, one for the run; tests keep apart by databases and leave it running."""
    server = servers.start_postgres(tmp_path_factory.getbasetemp() / "servers")
    yield server
    server.stop()
    server.purge()
