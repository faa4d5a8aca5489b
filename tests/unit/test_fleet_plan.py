"""Which processes a fleet consists of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringonce.errors import ConfigurationError
from ringonce.fleet.plan import Member, members, with_metrics

CHANNELS = ("firebase", "apns")


def short(member: Member) -> tuple[str, str]:
    """Name, and what is run, without the program's folder."""
    program, *flags = member.command
    return member.name, " ".join([Path(program).name, *flags])


def test_all_roles_of_the_channels() -> None:
    """Router, its recorder, and for each channel a sender and a recorder."""
    assert [short(member) for member in members(CHANNELS)] == [
        ("router", "router"),
        ("router-dlq", "router --mode dlq"),
        ("firebase", "sender --channel firebase"),
        ("firebase-dlq", "sender --channel firebase --mode dlq"),
        ("apns", "sender --channel apns"),
        ("apns-dlq", "sender --channel apns --mode dlq"),
    ]


def test_the_programs_are_those_of_this_environment() -> None:
    """Wherever the path leads."""
    assert all(os.access(member.command[0], os.X_OK) for member in members(CHANNELS))


def test_only_some_roles() -> None:
    """In the plan's own order."""
    assert [member.name for member in members(CHANNELS, ["apns", "router"])] == ["router", "apns"]


def test_several_senders_are_numbered() -> None:
    """Flags for senders are for all of them, and for nobody else."""
    found = [short(member) for member in members(CHANNELS, processes={"apns": 2}, sender_flags=["--delay", "x=1s"])]
    assert found[2:] == [
        ("firebase", "sender --channel firebase --delay x=1s"),
        ("firebase-dlq", "sender --channel firebase --mode dlq"),
        ("apns-1", "sender --channel apns --delay x=1s"),
        ("apns-2", "sender --channel apns --delay x=1s"),
        ("apns-dlq", "sender --channel apns --mode dlq"),
    ]


def test_what_is_wrong_is_said_at_once() -> None:
    """Every fault, in one message."""
    with pytest.raises(ConfigurationError) as caught:
        members(CHANNELS, ["pigeon"], {"owl": 2, "apns": 0})
    assert caught.value.faults == [
        "there is no role 'pigeon'; there are router, router-dlq, firebase, firebase-dlq, apns, apns-dlq",
        "there is no channel 'owl'",
        "apns needs at least one process",
    ]


def test_each_process_has_the_next_port() -> None:
    """An operator can tell each one's from the order of the roles; a plan that runs out of ports is refused."""
    planned = members(CHANNELS[:1], (), {"firebase": 2})
    ports = {member.name: port for member, port in with_metrics(planned, 9464).items()}
    assert ports == {"router": 9464, "router-dlq": 9465, "firebase-1": 9466, "firebase-2": 9467, "firebase-dlq": 9468}
    assert [member.command[-2:] for member in with_metrics(planned, 9464)][1] == ("--metrics-port", "9465")
    with pytest.raises(ConfigurationError):
        with_metrics(planned, 65_535)
