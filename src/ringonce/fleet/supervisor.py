"""The fleet as a whole: all members run, or all stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ringonce.errors import RingonceError, WorkLeftBehind
from ringonce.fleet.child import Child, Ended, Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ringonce.fleet.plan import Member


class FleetEnded(RingonceError):  # noqa: N818 - what happened
    """A member ended in a way that starting it again cannot mend; it has said why itself."""

    def __init__(self, ended: Ended) -> None:
        self.exit_code = ended.code
        super().__init__(f"{ended.member.name} ended with exit code {ended.code}; the fleet was stopped")


class FleetLeftWork(RingonceError):  # noqa: N818 - what happened
    """Members stopped with work unfinished; nothing is lost."""

    exit_code = WorkLeftBehind.exit_code

    def __init__(self, members: int) -> None:
        super().__init__(f"{members} members stopped with records unfinished; they will be delivered again")


class Fleet:
    """Runs its members until it is told to stop."""

    def __init__(
        self,
        members: Sequence[Member],
        environment: Mapping[str, str],
        say: Callable[[Member, str], None],
        patience: Patience | None = None,
    ) -> None:
        self._children = [Child(member, environment, say, patience) for member in members]

    async def run(self, stop: asyncio.Event) -> None:
        """Keep every member running until `stop` is set, then stop them all.

        Raises:
            FleetEnded: a member's flags or settings are wrong.
            FleetLeftWork: a member could not finish everything; it comes again.
            ConfigurationError: a member's program is not there.
        """
        running = [asyncio.create_task(child.run()) for child in self._children]
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for child in self._children:
            child.stop()
        await asyncio.wait(running)
        ended = [task.result() for task in running]  # raises what a task has raised, now that all have ended
        for one in ended:
            if not one.asked:
                raise FleetEnded(one)
        left = sum(one.code == WorkLeftBehind.exit_code for one in ended)
        if left:
            raise FleetLeftWork(left)
