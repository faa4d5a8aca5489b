"""Libraries that are loaded into a process before all others, to stand between it and the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDERS: Final = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
"""Where distributions put them."""


def find_library(name: str) -> Path | None:
    """The library, by its path below one of the usual folders."""
    for folder in FOLDERS:
        for found in sorted(Path("/").glob(f"{folder.removeprefix('/')}/{name}")):
            return found
    return None


def python_under(environment: Mapping[str, str], program: str) -> str:
    """What a Python `program` prints in this environment, or how it failed."""
    run = subprocess.run(
        [sys.executable, "-I", "-c", program],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return (run.stdout + run.stderr).strip()
