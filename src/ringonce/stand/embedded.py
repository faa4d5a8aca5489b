"""The broker of the embedded stand: `python -m ringonce.stand.embedded PORT`.

The mock cluster listens where the system lets it. Clients need an address that they can know beforehand, so a relay
listens on the stand's port and passes bytes on. It serves the first question of every client: the answer names the
broker's own port, and from then on they talk to it directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from functools import partial

from ringonce.kafka.embedded import mock_cluster
from ringonce.stand.kafka_probe import known_brokers
from ringonce.stand.ports import LOOPBACK
from ringonce.stand.program import Program

NAME = "kafka"

_CHUNK_BYTES = 65_536


def broker(port: int) -> Program:
    """The broker as a service of the stand."""
    argv = (sys.executable, "-m", "ringonce.stand.embedded", str(port))
    return Program(NAME, argv, port, answering=lambda: bool(known_brokers(LOOPBACK, port)), port_option="--kafka-port")


async def _relay(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes one connection on to `host` and `port`, until either side ends it."""
    with contextlib.suppress(OSError), contextlib.closing(writer):
        there, back = await asyncio.open_connection(host, port)
        with contextlib.closing(back):
            directions = [asyncio.create_task(_copy(reader, back)), asyncio.create_task(_copy(there, writer))]
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK_BYTES):
        target.write(data)
        await target.drain()


async def _run(port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with mock_cluster() as (host, own_port):
        server = await asyncio.start_server(partial(_relay, host, own_port), LOOPBACK, port)
        await stop.wait()
        server.close()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
