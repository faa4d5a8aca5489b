"""The error of the development stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.errors import RingonceError

if TYPE_CHECKING:
    from pathlib import Path

_TAIL_LINES = 15


class StandError(RingonceError):
    """A part of the stand cannot be brought up, or is missing; the message says which and what would help."""

    exit_code = 4

    @classmethod
    def with_log(cls, what: str, log: Path) -> StandError:
        """Says `what` happened, then where the server's log is and the end of it."""
        try:
            tail = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            tail = []
        return cls("\n".join([f"{what}; its log is {log}", *(f"    {line}" for line in tail)]))
