"""A wall clock that goes wrong for single processes; their monotonic clock does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

from tests.chaos.means.library import python_under

SOURCE: Final = Path(__file__).with_name("clock.c")
NANOS: Final = 1_000_000_000
FAR: Final = 7200.0


class Clock:
    """The wall clock of every process that is started with `environment`; right until it is set wrong.

    Args:
        folder: for the file that says how wrong it is, and for the library that obeys it.
        name: tells the clocks in one folder apart.
    """

    def __init__(self, folder: Path, name: str = "clock") -> None:
        self._offset = folder / f"{name}.offset"
        self._library = folder / f"{name}.so"
        self._offset.write_bytes(bytes(8))
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(self._library), str(SOURCE), "-ldl"],  # noqa: S607 - whichever there is
            check=True,
            capture_output=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What puts a process under this clock."""
        return {"LD_PRELOAD": str(self._library), "RINGONCE_TEST_CLOCK": str(self._offset)}

    def skew(self, seconds: float) -> None:
        """From now on it is so many seconds ahead, or behind where negative: also for processes that run."""
        nanoseconds = round(seconds * NANOS)
        file = os.open(self._offset, os.O_WRONLY)
        try:
            # Eight aligned bytes: whoever reads them sees the old number or the new one.
            os.pwrite(file, nanoseconds.to_bytes(8, "little", signed=True), 0)
        finally:
            os.close(file)


@cache
def lacks() -> str:
    """Why no clock can be set wrong on this machine; empty when one can."""
    if shutil.which("cc") is None:
        return "there is no C compiler"
    with tempfile.TemporaryDirectory() as folder:
        try:
            clock = Clock(Path(folder))
        except subprocess.CalledProcessError as error:
            return f"the library does not compile: {error.stderr.decode(errors='replace').strip()[-200:]}"
        clock.skew(FAR)
        said = python_under(clock.environment, "import time; print(time.time(), time.monotonic())")
        try:
            wall, monotonic = (float(word) for word in said.split())
        except ValueError:
            return f"a process with another clock fails: {said[-200:]}"
    if wall - time.time() < FAR / 2 or monotonic - time.monotonic() > FAR / 2:
        return "the preloaded library does not set the wall clock alone"
    return ""
