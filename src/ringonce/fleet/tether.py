"""Ties a child process to the life of its parent."""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG: Final = 1


def tether() -> Callable[[], None] | None:
    """What a child has to run before its program begins (`preexec_fn`) to be sent SIGTERM when its parent ends.

    However the parent ends: one that is killed cannot stop its children, and they would run on for ever. The parent's
    thread that starts the child has to be one that lives as long as the parent. None where the system cannot do it:
    only Linux can.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: between fork and exec there must be no import and no lock

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask
