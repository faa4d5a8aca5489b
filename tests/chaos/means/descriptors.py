"""A process with few file descriptors."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence


def limited(command: Sequence[str], descriptors: int) -> list[str]:
    """The command, changed so that it has at most so many descriptors from its first instruction on."""
    return ["/bin/sh", "-c", f'ulimit -S -n {descriptors} && exec "$@"', "sh", *command]


def limit(pid: int, descriptors: int) -> None:
    """Limit a process that runs, or let it have more again; what it has open stays open."""
    process = psutil.Process(pid)
    _, most = process.rlimit(psutil.RLIMIT_NOFILE)
    # The hard limit stays, for not even root can everywhere raise one again.
    process.rlimit(psutil.RLIMIT_NOFILE, (min(descriptors, most), most))


def in_use(pid: int) -> int:
    """How many descriptors a process has open."""
    return psutil.Process(pid).num_fds()


@cache
def lacks() -> str:
    """Why a process cannot be limited on this machine; empty when it can."""
    return "" if sys.platform == "linux" else "limits of other processes are Linux's"
