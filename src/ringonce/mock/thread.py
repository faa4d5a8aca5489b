"""A mock provider in a thread of its own, for tests: its answers do not wait for the test's event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self, TypeVar

import uvloop

from ringonce.mock.memory import DEFAULT_LIMIT, Act
from ringonce.mock.provider import Provider
from ringonce.mock.server import MockServer, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.mock.faults import Faults

Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds after which a thread that does not react is given up as broken."""


class MockProvider:
    """``with MockProvider("firebase", secret="s") as mock:`` serves at `mock.url` until the end of the block.

    All methods may be called from any thread, and after the end as well. `stop` and `start` make a provider that is
    gone for a while: same port, same memory.

    Args:
        name: what it stands for, e.g. the channel.
        host: an address of this machine.
        port: 0 takes a free one.
        secret: deliveries signed otherwise are answered 401; None: signatures are not looked at.
        faults: at the start.
        seed: of its luck.
        limit: how many deliveries are remembered.
    """

    def __init__(
        self,
        name: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        secret: str | None = None,
        faults: Faults | None = None,
        seed: int = 0,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._provider = Provider(name, secret=secret, faults=faults, seed=seed, limit=limit)
        self._server = MockServer(self._provider, host=host, port=port)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event
        self._over: Future[None]
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """What it stands for."""
        return self._provider.name

    @property
    def url(self) -> str:
        """Where deliveries go, without a path; known once started."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port it listens on; known once started."""
        return self._server.port

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Serve; returns once it listens.

        Raises:
            CannotListen: the address cannot be had.
        """
        listening: Future[None] = Future()
        self._over = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name=f"mock-{self._provider.name}", daemon=True
        )
        self._thread.start()
        try:
            listening.result(PATIENCE)
        except BaseException:
            self._thread.join(PATIENCE)
            self._thread = None
            raise

    def stop(self) -> None:
        """Drop every connection and end the thread; does nothing when it is not running.

        Raises:
            InternalError: something in the provider failed while it ran.
        """
        if self._thread is None:
            return
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        self._over.result(PATIENCE)
        self._thread.join(PATIENCE)
        self._thread = None

    def chaos(self, **knobs: object) -> Faults:
        """Turn knobs: ``mock.chaos(FAIL_RATE_503=0.7)``. Without any, or with `reset=True`, back to the defaults first.

        Raises:
            ConfigurationError: naming every unknown knob and wrong value; nothing was changed.
        """
        return self._ask(lambda: self._provider.chaos(knobs))

    def stats(self) -> dict[str, object]:
        """Counts over everything since the start or the last `forget`, and the knobs in force."""
        return self._ask(self._provider.stats)

    def acts(self, since: int = 0) -> list[Act]:
        """The remembered acts numbered above `since`, oldest first."""
        return self._ask(lambda: self._provider.acts(since))

    def calls(self) -> list[Act]:
        """Every remembered delivery, refused ones too, in order of arrival."""
        return self._ask(self._provider.calls)

    def forget(self) -> None:
        """Start with an empty memory; deliveries under way are never seen in it."""
        self._ask(self._provider.forget)

    def _ask(self, question: Callable[[], Result]) -> Result:
        """Ask in the provider's thread, or right here when it has none any more."""
        answer: Future[Result] = Future()

        def ask() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
                answer.set_exception(error)

        # Under the lock the loop cannot end between the look and the call; what is in its queue by then is answered
        # before the stop behind it.
        with self._lock:
            if self._loop is None:
                return question()
            self._loop.call_soon_threadsafe(ask)
        return answer.result(PATIENCE)

    def _run(self, listening: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(listening))
        except BaseException as error:  # noqa: BLE001 - it is raised where the thread is waited for
            if not listening.done():
                listening.set_exception(error)
            self._over.set_exception(error)
        else:
            self._over.set_result(None)

    async def _serve(self, listening: Future[None]) -> None:
        self._stop = asyncio.Event()

        def ready() -> None:
            with self._lock:
                self._loop = asyncio.get_running_loop()
            listening.set_result(None)

        try:
            await serve(self._server, self._stop, ready)
        finally:
            with self._lock:
                self._loop = None
