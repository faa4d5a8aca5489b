"""How the programs start, and say why they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.program import Program
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

PASSWORD = "not-to-be-shown"  # noqa: S105 - planted, to be looked for


def ended(command: list[str], environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """The exit code of a program without a site, and what it wrote."""
    program = Program(command, environment, folder / "log")
    try:
        return program.wait(), program.text()
    finally:
        program.kill()


def test_every_missing_and_wrong_setting_is_said_in_one_message(tmp_path: Path) -> None:
    """Exit 3, and all faults at once: who has to fix them shall not have to come back five times."""
    wrong = {
        "RINGONCE_SESSION_TIMEOUT": "soon",
        "RINGONCE_CHANNELS__FIREBASE__MAX_IN_FLIGHT": "0",
        "RINGONCE_CHANNELS__FIREBASE__BODY": "xml",
    }
    code, text = ended(["sender", "--channel", "firebase"], wrong, tmp_path)
    assert code == 3
    for name in (
        "KAFKA_BOOTSTRAP is not set",
        "DATABASE_URL is not set",
        "RINGONCE_SESSION_TIMEOUT:",
        "RINGONCE_CHANNELS__FIREBASE__TARGET is not set",
        "RINGONCE_CHANNELS__FIREBASE__SECRET is not set",
        "RINGONCE_CHANNELS__FIREBASE__MAX_IN_FLIGHT:",
        "RINGONCE_CHANNELS__FIREBASE__BODY:",
    ):
        assert name in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (
            ["sender", "--channel", "pigeon"],
            "there is no channel 'pigeon'; there are apns, email, firebase, ntfy, webhook",
        ),
        (["sender", "--channel", "firebase", "--delay", "retry-1h=2s"], "firebase has no retry stage retry-1h"),
        (
            ["sender", "--channel", "firebase", "--delay-30s", "9m"],
            "delays of the retry stages must be positive and rise",
        ),
        (["sender", "--channel", "firebase", "--target", "nowhere"], "RINGONCE_CHANNELS__FIREBASE__TARGET"),
        (["router", "--channels", "firebase,pigeon"], "there is no channel 'pigeon'"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, command: list[str], fault: str) -> None:
    environment = {
        "KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "DATABASE_URL": "postgresql://127.0.0.1:1/x",
        "RINGONCE_CHANNELS__FIREBASE__TARGET": "http://127.0.0.1:1/send",
        "RINGONCE_CHANNELS__FIREBASE__SECRET": "s",
    }
    code, text = ended(command, environment, tmp_path)
    assert (code, fault in text, "Traceback" in text) == (3, True, False), text


def test_a_broker_that_is_not_there_is_said_with_its_address(tmp_path: Path) -> None:
    """Exit 4, for every role. They are started at once, because each tries for a while."""
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "KAFKA_BOOTSTRAP": address,
        "DATABASE_URL": f"postgresql://u:{PASSWORD}@127.0.0.1:1/x",
        "RINGONCE_CHANNELS__FIREBASE__TARGET": "http://127.0.0.1:1/send",
        "RINGONCE_CHANNELS__FIREBASE__SECRET": PASSWORD,
    }
    commands = [["router"], ["router", "--mode", "dlq"], ["sender", "--channel", "firebase"]]
    roles = [Program(command, environment, tmp_path / str(number)) for number, command in enumerate(commands)]
    try:
        assert [role.wait() for role in roles] == [4, 4, 4]
    finally:
        for role in roles:
            role.kill()
    for role in roles:
        assert f"Kafka at {address} is not reachable" in role.text()
        assert PASSWORD not in role.text()
        assert "Traceback" not in role.text()


@pytest.mark.embedded
@pytest.mark.broker
@pytest.mark.database
def test_a_database_that_is_not_there_is_said_with_its_address_and_without_the_password(
    site: Site, programs: Programs
) -> None:
    """Exit 4, for every role that writes."""
    site.prepare()
    address = f"127.0.0.1:{free_port()}/history"
    url = f"postgresql://someone:{PASSWORD}@{address}"
    for command in (
        ("sender", "--channel", "apns"),
        ("sender", "--channel", "apns", "--mode", "dlq"),
        ("router", "--mode", "dlq"),
    ):
        code, text = programs.run(*command, DATABASE_URL=url)
        assert code == 4, text
        assert f"{address} is not reachable" in text
        assert PASSWORD not in text
        assert "Traceback" not in text


@pytest.mark.embedded
@pytest.mark.broker
@pytest.mark.database
def test_topics_and_a_schema_that_are_missing_are_named(site: Site, programs: Programs, bare: str) -> None:
    """Exit 3: the servers are there, what is in them is not."""
    site.prepare(["firebase"])
    code, text = programs.run("sender", "--channel", "apns")
    assert code == 3
    for stage in ("main", "retry-30s", "retry-5m", "dlq"):
        assert f"{site.names.stage('apns', stage)}: does not exist" in text
    code, text = programs.run("sender", "--channel", "firebase", DATABASE_URL=bare)
    assert code == 3
    assert "has no schema" in text


@pytest.mark.broker
@pytest.mark.database
def test_a_topic_that_cannot_carry_the_promises_is_refused(site: Site, programs: Programs) -> None:
    """A retry topic that takes less than a forward needs."""
    site.prepare(["firebase"])
    site.shrink(site.names.stage("firebase", "retry-5m"), 1_000_000)
    code, text = programs.run("sender", "--channel", "firebase")
    assert code == 3
    assert f"{site.names.stage('firebase', 'retry-5m')}: max.message.bytes is 1000000" in text


@pytest.mark.broker
@pytest.mark.database
async def test_a_dry_run_shows_and_touches_nothing(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """One line for each record, without its content; no call, no row, no group's offset."""
    site.prepare(["firebase"])
    main = site.names.stage("firebase", "main")
    fresh = notification("fresh", title="A secret title")
    late = notification("late", expires_at=notification("").created_at)
    site.send([fresh, late, notification("")], main)
    dry = programs.start("sender", "--channel", "firebase", "--dry-run", "--node-id", "look")
    await eventually(lambda: len(lines(dry, main)) == 3, so_far=dry.text)
    shown = sorted(line.rpartition(": ")[2] for line in lines(dry, main))
    assert dry.stop() == 0
    assert shown == ["expired", "send, Idempotency-Key n-", "send, Idempotency-Key n-fresh"]
    assert "A secret title" not in dry.text()
    assert providers["firebase"].stats()["requests"] == 0
    assert site.history.rows() == {}
    assert site.history.gate() == set()
    for group in ("firebase-sender", "firebase-dry-run-look"):
        assert site.committed(group) == {}


def lines(program: Program, topic: str) -> list[str]:
    return [line for line in program.text().splitlines() if line.startswith(f"{topic}[")]


@pytest.mark.broker
@pytest.mark.database
async def test_a_new_group_may_begin_at_the_end_once(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """--from-latest skips what lies in main, but in no other stage, and only for a group that has no offsets yet."""
    site.prepare(["firebase"])
    main, retry = (site.names.stage("firebase", stage) for stage in ("main", "retry-30s"))
    site.send([notification(f"old-{number}") for number in range(5)], main)
    site.send([notification("waits")], retry)
    latest = ("sender", "--channel", "firebase", "--from-latest", "--delay-30s", "1s")
    first = programs.start(*latest)
    await eventually(lambda: site.members("firebase-sender"))
    site.send([notification("new")], main)
    await eventually(lambda: site.history.count() == 2, so_far=site.history.statuses)
    assert set(site.history.rows()) == {"n-new", "n-waits"}
    assert first.stop() == 0

    site.send([notification("meanwhile")], main)
    programs.start(*latest)
    await eventually(lambda: site.history.count() == 3, so_far=site.history.statuses)
    assert "n-meanwhile" in site.history.rows()
    assert {act.key for act in providers["firebase"].calls()} == {"n-new", "n-waits", "n-meanwhile"}
