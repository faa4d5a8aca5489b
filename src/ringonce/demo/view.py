"""The demo's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from ringonce.domain.disposition import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.demo.watch import ChannelView

BREAKER_STYLES: Final = {"closed": "green", "half-open": "yellow", "open": "red"}
STATUSES: Final = (Status.DELIVERED, Status.DLQ, Status.EXPIRED)
STATUS_STYLES: Final = {Status.DELIVERED: "green", Status.DLQ: "red", Status.EXPIRED: "yellow"}

BEFORE: Final = "when every notification had come to an end"
AFTER: Final = "after the replay of the dead letters"
WHERE_NEXT: Final = (
    "What is in the dlq now is what the providers refuse for good (422).\n"
    "Where to look next: README.md does the same by hand, docs/ says the rest."
)


def table(title: str, views: Sequence[ChannelView]) -> Table:
    """A row per channel: what waits in each stage, the breaker, what has ended and how."""
    shown = Table(title=title, title_justify="left", title_style="bold", min_width=72)
    shown.add_column("channel")
    stages = list(views[0].stages) if views else []
    for stage in stages:
        shown.add_column(stage, justify="right", style="cyan")
    shown.add_column("breaker")
    for status in STATUSES:
        shown.add_column(status.value, justify="right", style=STATUS_STYLES[status])
    for view in views:
        style = BREAKER_STYLES.get(view.breaker, "")
        shown.add_row(
            view.name,
            *(_number(view.stages.get(stage, 0)) for stage in stages),
            f"[{style}]{view.breaker}[/]",
            *(_number(view.ended.get(status, 0)) for status in STATUSES),
        )
    return shown


def _number(count: int) -> str:
    return str(count) if count else "[dim]·[/]"
