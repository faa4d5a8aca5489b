"""`ringonce mock`: one mock provider as a process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

import click

from ringonce.channels.registry import CATALOGUE
from ringonce.domain.classify import SMTP
from ringonce.errors import ConfigurationError


@click.command("mock")
@click.option("--name", required=True, help="What it stands for: firebase, apns, webhook, ntfy, email.")
@click.option("--port", required=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--secret",
    envvar="MOCK_SECRET",
    help="Answer 401 to deliveries whose X-Signature is not made with it. Without it signatures are not looked at.",
)
def mock(name: str, port: int, host: str, secret: str | None) -> None:
    """Serve a mock provider that fails on command and remembers its deliveries.

    POST /send takes a delivery. GET /health, /stats and /acts?since=N tell; POST /chaos turns the knobs, POST /reset
    forgets the deliveries. Knobs come from the environment too: FAIL_RATE_503, FAIL_RATE_TIMEOUT, TIMEOUT_HANG_SEC,
    LATENCY_MS, RETRY_AFTER, STATUS, LOCATION, HANG, RESET (before, after, mid), DRIBBLE (headers, body), DRIBBLE_MS,
    BODY_BYTES, GZIP_BOMB, DEDUP.

    A channel that speaks SMTP gets a mail server, which is steered by its recipients: reply-451@, after-554@, cut@.

    Example: ringonce mock --name firebase --port 8091
    """
    try:
        # Here, because a production image has the command line but not what the mocks need.
        import uvloop  # noqa: PLC0415

        from ringonce.mock.faults import Faults  # noqa: PLC0415
        from ringonce.mock.mail import MailServer  # noqa: PLC0415
        from ringonce.mock.provider import Provider  # noqa: PLC0415
        from ringonce.mock.server import MockServer, serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError([f"the mock providers need {error.name}: install ringonce[stand]"]) from error

    async def run_mail() -> None:
        async with MailServer(name, host=host, port=port) as server:
            click.echo(f"mock provider {name} listening on {server.url}")
            await signalled().wait()

    def signalled() -> asyncio.Event:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        return stop

    async def run() -> None:
        server = MockServer(
            Provider(name, secret=secret, faults=Faults.from_environment(os.environ)), host=host, port=port
        )

        def ready() -> None:
            click.echo(f"mock provider {name} listening on {server.url}")
            # What is remembered are a million small objects without a cycle among them: looking through all of them
            # again and again would stop the provider for a tenth of a second each time.
            gc.set_threshold(*gc.get_threshold()[:2], 1000)

        await serve(server, signalled(), ready)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        row = CATALOGUE.get(name)
        runner.run(run_mail() if row is not None and row.protocol is SMTP else run())
