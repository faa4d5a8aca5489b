"""Ctrl-C in the demo: once it ends the play, and while things are cleaned up it changes nothing."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interruptible() -> None:
    """From now on the first of these signals raises KeyboardInterrupt; what the caller had ignored stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def undisturbed() -> None:
    """From now on these signals do nothing: half a clean-up would leave something running.

    By a handler, not by ignoring them: programs that are started to clean up would inherit that.
    """
    for number in SIGNALS:
        signal.signal(number, _nothing)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    undisturbed()
    sys.stderr.write("\ninterrupted; cleaning up\n")
    raise KeyboardInterrupt


def _nothing(_signal: int, _frame: FrameType | None) -> None:
    pass
