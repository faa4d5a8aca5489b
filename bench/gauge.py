"""What a process uses, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Resident set size of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE


def peak_bytes(pid: int) -> int:
    """The largest resident set size that it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("the kernel does not tell the peak of a process")


def cpu_seconds(pid: int) -> float:
    """User and system time that it has used, over all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
