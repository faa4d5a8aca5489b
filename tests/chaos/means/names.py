"""Host names that stop being known to single processes, as when DNS fails, and come back."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.chaos.means.library import find_library, python_under

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY: Final = "libnss_wrapper.so"
NAME: Final = "provider.ringonce.test"
"""No resolver knows it: the top-level domain is reserved."""

LOOPBACK: Final = "127.0.0.1"


class Names:
    """The host names that processes started with `environment` can resolve: these, ``localhost``, and no others.

    Args:
        folder: for the file that holds them.
        known: addresses by name.
    """

    def __init__(self, folder: Path, known: Mapping[str, str]) -> None:
        self._file = folder / "hosts"
        self._known = dict(known)
        self._version = 0
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """What puts a process under these names.

        Raises:
            LookupError: the library is not there; `lacks` says so beforehand.
        """
        library = find_library(LIBRARY)
        if library is None:
            raise LookupError(LIBRARY)
        return {"LD_PRELOAD": str(library), "NSS_WRAPPER_HOSTS": str(self._file)}

    def know(self, name: str, address: str = LOOPBACK) -> None:
        """From now on the name is found, at this address."""
        self._known[name] = address
        self._write()

    def forget(self, name: str) -> None:
        """From now on there is no such name."""
        self._known.pop(name, None)
        self._write()

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text("".join(f"{address} {name}\n" for name, address in self._known.items()))
        # The library reads the file again when its time differs in whole seconds.
        self._version += 1
        os.utime(new, (self._version, self._version))
        new.rename(self._file)


@cache
def lacks() -> str:
    """Why no name can be made to fail on this machine; empty when one can."""
    if find_library(LIBRARY) is None:
        return f"there is no {LIBRARY} (Debian's package libnss-wrapper)"
    with tempfile.TemporaryDirectory() as folder:
        names = Names(Path(folder), {NAME: LOOPBACK})
        said = python_under(names.environment, f"import socket; print(socket.gethostbyname('{NAME}'))")
    return "" if said == LOOPBACK else f"a process under libnss_wrapper does not find a name: {said[-200:]}"
