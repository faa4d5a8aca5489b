"""Puts the letters of a DLQ through the rules: once over all of them for what each root has, then batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.runtime.letters import open_letter
from ringonce.runtime.selection import Verdict, judge

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ringonce.domain.notification import Channel
    from ringonce.kafka.port import Record
    from ringonce.kafka.reader import BoundedReader
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.letters import DeadLetter
    from ringonce.runtime.selection import Rules, Selection
    from ringonce.store.replays import Past

BATCH: Final = 1000


class Sieve:
    """One replay's view of one DLQ.

    Args:
        channel: the DLQ's; None for the router's.
        selection: what was asked for.
        rules: what is allowed.
        look: asks the database, by root.
        clock: for what expires.
    """

    def __init__(
        self,
        channel: Channel | None,
        selection: Selection,
        rules: Rules,
        look: Callable[[Collection[str]], Mapping[str, Past]],
        clock: Clock,
    ) -> None:
        self._channel = channel
        self._selection = selection
        self.rules = rules
        self._look = look
        self._clock = clock
        self._newest: dict[str, tuple[int, int, int]] = {}
        self.wanted = 0
        """Letters that were asked for, from the replay's starts on."""

    def survey(self, reader: BoundedReader, starts: Mapping[int, int], stop: threading.Event) -> None:
        """Read what `reader` has before it, for the highest replay of each root; leaves it at its end.

        It costs some 300 bytes for each root that is there.
        """
        while not stop.is_set() and (batch := reader.next(BATCH)) is not None:
            for record in batch:
                letter = open_letter(record, self._channel, self._clock.now())
                standing = letter.standing
                if self._newest.get(letter.root, standing) <= standing:
                    self._newest[letter.root] = standing
                if record.offset >= starts.get(record.partition.number, 0) and self._selection.wants(letter):
                    self.wanted += 1

    def sift(self, batch: Sequence[Record]) -> list[tuple[DeadLetter, Verdict]]:
        """What becomes of each of these, in their order.

        Raises:
            ServerUnreachable: the database did not answer.
        """
        now = self._clock.now()
        letters = [open_letter(record, self._channel, now) for record in batch]
        roots = {letter.root for letter in letters if self._selection.wants(letter)}
        past = self._look(roots) if roots else {}
        return [(letter, judge(letter, self._selection, self.rules, self._newest, past, now)) for letter in letters]
