"""Metrics: what counting costs a sender that is scraped once a second, in turns with one that counts nothing."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Final

from bench.drain import drain
from bench.figures import Figure, ratios
from bench.letters import letters, put_all
from ringonce.domain.stages import MAIN
from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rig import Rig

PREFIX: Final = "metrics-"
EVERY: Final = 1.0
"""Seconds between two scrapes: Prometheus is content with fifteen times as many."""


@dataclass(frozen=True, slots=True)
class Size:
    """So many rounds over so many rows, each way."""

    rounds: int = 5
    rows: int = 12_000


@contextmanager
def scraped(port: int) -> Iterator[list[int]]:
    """Scrape a port for the length of the block; the sizes of the pages that came."""
    stop, pages = threading.Event(), list[int]()

    def scrape() -> None:
        while not stop.wait(EVERY):
            connection = HTTPConnection("127.0.0.1", port, timeout=EVERY)
            with suppress(OSError, HTTPException):  # the sender is not there yet, or no longer
                connection.request("GET", "/metrics")
                pages.append(len(connection.getresponse().read()))
            connection.close()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield pages
    finally:
        stop.set()
        thread.join()


def measure(running: Rig, size: Size) -> list[Figure]:
    """Drain the same backlog both ways. What is compared is the CPU time of a row: a rate is the machine's as well."""
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    put_all(running.kafka.bootstrap, letters(topic, PREFIX, size.rows))
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(size.rounds):
        # Who is first has the machine as the one before has left it: they change places.
        for counting in (True, False) if number % 2 else (False, True):
            if not counting:
                found[False].append(drain(running, PREFIX, size.rows, {}).cpu_us)
                continue
            port = free_port()
            with scraped(port) as pages:
                found[True].append(drain(running, PREFIX, size.rows, {}, RINGONCE_METRICS_PORT=str(port)).cpu_us)
            if not pages:
                raise SystemExit("nobody was scraped")
    running.delete_topics(PREFIX)
    return [
        Figure("metrics_overhead", "ratio", ratios(found[True], found[False])),
        Figure("metrics_off_cpu_us", "µs CPU", found[False]),
        Figure("metrics_on_cpu_us", "µs CPU", found[True]),
    ]
