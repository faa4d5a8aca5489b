"""A small disk that can be filled up under a server, and emptied again."""

from __future__ import annotations

import errno
import os
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

PIECES: Final = (1 << 20, 1 << 12)
"""Bytes that are written at once while filling: first much, then to the last page."""


class SmallDisk:
    """``with SmallDisk(folder, 200) as disk:`` has a file system of 200 MiB at `folder` until the end of the block.

    What was in the folder is out of sight meanwhile; what is on the disk is gone afterwards. Whoever uses it must have
    ended by then.
    """

    def __init__(self, folder: Path, mebibytes: int) -> None:
        self._folder = folder
        self._mebibytes = mebibytes
        self._ballast = folder / "ballast"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        options = f"size={self._mebibytes}m,mode=0755"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "ringonce-small-disk", str(self._folder)],  # noqa: S607 - of the system
            check=True,
            capture_output=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self._folder)], check=True, capture_output=True)  # noqa: S607

    @property
    def free_bytes(self) -> int:
        """How much room there is."""
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def fill(self) -> int:
        """Take all the room there is; how many bytes that was. May be called again, for what was freed meanwhile."""
        before = self._ballast.stat().st_size if self._ballast.exists() else 0
        with self._ballast.open("ab", buffering=0) as ballast:
            for piece in PIECES:
                try:
                    while ballast.write(bytes(piece)):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        return self._ballast.stat().st_size - before

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)


@cache
def lacks() -> str:
    """Why there can be no small disk on this machine; empty when there can."""
    with TemporaryDirectory() as folder:
        try:
            with SmallDisk(Path(folder), 1):
                return ""
        except FileNotFoundError:
            return "there is no program `mount`"
        except subprocess.CalledProcessError as error:
            return f"a tmpfs cannot be mounted: {error.stderr.decode(errors='replace').strip()}"
