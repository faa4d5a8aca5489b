"""`ringonce top`."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from ringonce.channels.registry import CHANNELS
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.exporting import rows_with_delays
from ringonce.settings import ExporterSettings, load
from ringonce.tools.board import HEAD, Line, board, cells
from ringonce.tools.roles import chosen_delays, database
from ringonce.tools.sources import Endpoint, Endpoints, Source, servers, usual_endpoints
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT: Final = 2
"""Columns that hold words; the others hold numbers."""


class EndpointType(click.ParamType[Endpoint]):
    """``host:port``, or a port of this machine."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Endpoint:
        """The endpoint."""
        if isinstance(value, Endpoint):
            return value
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) <= 65_535:  # noqa: PLR2004 - the last port
            self.fail(f"{value!r} is neither host:port nor a port", param, ctx)
        return Endpoint(host or "127.0.0.1", int(port))


@click.command()
@click.option("--endpoint", "endpoints", multiple=True, type=EndpointType(), help="A process's metrics port.")
@click.option(
    "--every", default=2.0, show_default=True, type=click.FloatRange(0.2, 60.0), help="Seconds between looks."
)
@click.option("--once", is_flag=True, help="Look twice, print, and end.")
@click.option("--json", "as_json", is_flag=True, help="With --once: for machines.")
@kafka
@prefix
@database
@click.option(
    "--channels", "channel_names", help="Without metrics ports: the configured channels, separated by commas."
)
@click.option("--delay", "delays", multiple=True, metavar="STAGE=TIME", help="A stage's delay, as senders have it.")
def top(
    *,
    endpoints: tuple[Endpoint, ...],
    every: float,
    once: bool,
    as_json: bool,
    delays: tuple[str, ...],
    **given: str | None,
) -> None:
    """Show the fleet: a line for each channel and stage.

    Reads the metrics ports that are named, else those of this machine where an exporter (9460) or a fleet (9464 and
    on) answers, else Kafka and PostgreSQL themselves, which know ages, lags and rows, but no latencies or breakers.

    Example: ringonce top --endpoint 9464 --endpoint 9465
    """
    if as_json and not once:
        raise click.UsageError("--json needs --once")
    if not once and not sys.stdout.isatty():
        raise click.UsageError("this is no terminal; --once prints what there is and ends")
    with ExitStack() as stack:
        source: Source
        found = list(endpoints) or usual_endpoints()
        if found:
            source = Endpoints(found)
        else:
            for name in ("ringonce", "ringonce.kafka"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # which server is silent is said on the screen
            settings = load(ExporterSettings, **given)
            chosen, faults = chosen_delays(delays, None, None)
            if faults:
                raise ConfigurationError(faults)
            rows = rows_with_delays(settings.channel_names or CHANNELS, chosen)
            source = stack.enter_context(servers(settings, rows))
        if once:
            _print(source, every, as_json=as_json)
        else:
            _watch(source, every)


def _print(source: Source, every: float, *, as_json: bool) -> None:
    before = source.read()
    time.sleep(every)
    lines = board(before, source.read())
    if as_json:
        click.echo(json.dumps({"source": str(source), "lines": [line._asdict() for line in lines]}, indent=2))
    else:
        click.echo("\n".join(_text(lines)) + f"\nfrom {source}")


def _text(lines: Sequence[Line]) -> list[str]:
    table = [list(HEAD), *cells(lines)]
    widths = [max(len(row[at]) for row in table) for at in range(len(HEAD))]
    return [
        "  ".join(
            cell.ljust(width) if at < LEFT else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _watch(source: Source, every: float) -> None:
    try:
        # Here, because a production image has the command line but not what the stand needs.
        from rich.live import Live  # noqa: PLC0415
    except ModuleNotFoundError:
        raise click.UsageError("the screen needs rich, which comes with ringonce[stand]; --once does not") from None
    before = source.read()
    with Live(screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(every)
                try:
                    reading = source.read()
                except ServerUnreachable as error:
                    live.update(_screen([], str(error)), refresh=True)
                    continue
                live.update(_screen(board(before, reading), f"from {source}"), refresh=True)
                before = reading
        except KeyboardInterrupt:
            return


def _screen(lines: Sequence[Line], said: str) -> Any:
    """The table with colour where something is wrong, and nowhere else."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=None, caption=f"{said}; Ctrl-C ends", caption_justify="left", pad_edge=False)
    for at, name in enumerate(HEAD):
        shown.add_column(name, justify="left" if at < LEFT else "right", no_wrap=True)
    for line, row in zip(lines, cells(lines), strict=True):
        wrong = {
            "OLDEST": "bold red" if line.late else "",
            "BREAKER": "bold red" if line.breakers else "",
            "HELD": "yellow" if line.held else "",
            "DLQ/MIN": "yellow" if line.dead_per_minute else "",
        }
        shown.add_row(*(Text(cell, wrong.get(name, "")) for name, cell in zip(HEAD, row, strict=True)))
    return shown
