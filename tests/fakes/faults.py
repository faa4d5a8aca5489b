"""Faults that a test declares, and that it must have hit."""

from __future__ import annotations

from typing import Generic, TypeVar

F = TypeVar("F")


class Faults(Generic[F]):
    """A queue of faults, each for a number of calls. A test asserts `spent`, so that no declared fault goes unhit."""

    def __init__(self) -> None:
        self._due: list[tuple[F, int]] = []
        self.hits = 0

    def declare(self, fault: F, times: int = 1) -> None:
        """The next `times` calls meet `fault`."""
        self._due.append((fault, times))

    def next(self) -> F | None:
        """What this call meets, if anything."""
        if not self._due:
            return None
        fault, times = self._due[0]
        if times == 1:
            del self._due[0]
        else:
            self._due[0] = (fault, times - 1)
        self.hits += 1
        return fault

    @property
    def spent(self) -> bool:
        """Whether there were faults and every one was met."""
        return self.hits > 0 and not self._due

    def lift(self) -> None:
        """What is still due does not happen."""
        self._due.clear()
