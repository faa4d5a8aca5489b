"""Which processes a fleet consists of."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ROUTER = "router"
ROUTER_DLQ = "router-dlq"
HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Member:
    """One process: its name in the logs, and what is run."""

    name: str
    command: tuple[str, ...]

    def with_metrics(self, port: int) -> Member:
        """The same, with its pages on a port."""
        return replace(self, command=(*self.command, "--metrics-port", str(port)))


def _executable(name: str) -> str:
    """One of our programs, from the environment that this process runs in."""
    return str(Path(sysconfig.get_path("scripts")) / name)


def members(
    channels: Sequence[str],
    only: Collection[str] = (),
    processes: Mapping[str, int] | None = None,
    sender_flags: Sequence[str] = (),
) -> list[Member]:
    """The processes of a fleet: router, its recorder, and for each channel its senders and its recorder.

    Args:
        channels: the configured channels.
        only: roles to run, by name (``router``, ``router-dlq``, ``firebase``, ``firebase-dlq``); all when empty.
        processes: how many senders a channel has; one where it is not named.
        sender_flags: given to every sender.

    Raises:
        ConfigurationError: a role or a channel that there is not, or fewer than one process.
    """
    counts = dict(processes or {})
    roles = [ROUTER, ROUTER_DLQ, *(role for channel in channels for role in (channel, f"{channel}-dlq"))]
    faults = [f"there is no role {role!r}; there are {', '.join(roles)}" for role in only if role not in roles]
    faults += [f"there is no channel {name!r}" for name in counts if name not in channels]
    faults += [f"{name} needs at least one process" for name, count in counts.items() if count < 1]
    if faults:
        raise ConfigurationError(faults)
    found: list[Member] = []
    for role in roles:
        if only and role not in only:
            continue
        found += _processes(role, counts.get(role, 1), sender_flags)
    return found


def with_metrics(planned: Sequence[Member], first: int) -> dict[Member, int]:
    """Each process with a port of its own for its pages: `first`, then one more for each in the plan's order.

    Raises:
        ConfigurationError: there are not so many ports.
    """
    if first < 1 or first + len(planned) - 1 > HIGHEST_PORT:
        raise ConfigurationError([f"{len(planned)} processes have no ports from {first} on"])
    return {member.with_metrics(port): port for port, member in enumerate(planned, first)}


def _processes(role: str, count: int, sender_flags: Sequence[str]) -> list[Member]:
    if role == ROUTER:
        return [Member(role, (_executable("router"),))]
    if role == ROUTER_DLQ:
        return [Member(role, (_executable("router"), "--mode", "dlq"))]
    if role.endswith("-dlq"):
        return [Member(role, (_executable("sender"), "--channel", role.removesuffix("-dlq"), "--mode", "dlq"))]
    command = (_executable("sender"), "--channel", role, *sender_flags)
    return [Member(role if count == 1 else f"{role}-{number}", command) for number in range(1, count + 1)]
