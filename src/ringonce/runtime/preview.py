"""What a replay would do, without doing it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ringonce.runtime.selection import Verdict
from ringonce.runtime.sieve import BATCH
from ringonce.runtime.tally import Tally

if TYPE_CHECKING:
    import threading

    from ringonce.kafka.reader import BoundedReader
    from ringonce.runtime.replay import Progress
    from ringonce.runtime.sieve import Sieve


class Preview:
    """A tally of what would go, and a count of what would not, by verdict; `now` in seconds since the epoch."""

    def __init__(self, now: float) -> None:
        self.tally = Tally(now)
        self.verdicts: Counter[Verdict] = Counter()
        self.whole = False
        """Whether everything has been looked at."""

    def look(
        self, reader: BoundedReader, sieve: Sieve, progress: Progress, limit: int | None, stop: threading.Event
    ) -> None:
        """Put everything from `progress` on through the sieve, up to the end or until so many would have gone."""
        reader.seek(progress.positions)
        while not stop.is_set():
            left = BATCH if limit is None else limit - progress.published - self.tally.total
            if left <= 0 or (batch := reader.next(min(left, BATCH))) is None:
                self.whole = True
                return
            for letter, verdict in sieve.sift(batch):
                if verdict is Verdict.GO:
                    self.tally.add(letter)
                else:
                    self.verdicts[verdict] += 1
