"""What the recorder of a DLQ writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tests.fakes.samples import notification, work

from ringonce.domain.disposition import Status
from ringonce.kafka.port import Partition
from ringonce.runtime.dlq import DlqHandler
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from ringonce.runtime.pipeline import Pipeline
    from ringonce.runtime.work import Work
    from ringonce.store.port import HistoryRow


class Frame:
    """As much of a pipeline as the handler sees: whose it is, and a recorder that keeps what it is given."""

    def __init__(self, name: str) -> None:
        self.profile = self
        self.recorder = self
        self.name = name
        self.rows: list[HistoryRow] = []

    def submit(self, row: HistoryRow, one: Work) -> None:
        """Have a row written."""
        assert one.phase is Phase.SETTLING
        self.rows.append(row)


def recorded(one: Work, channel: str = "firebase") -> HistoryRow:
    """The row that becomes of a record."""
    frame = Frame(channel)
    DlqHandler(cast("Pipeline", frame)).ready(one)
    (row,) = frame.rows
    return row


def test_a_dead_letter_becomes_a_row() -> None:
    """With the error, the attempts and the status code that its headers tell."""
    headers: Any = [
        ("error.message", b"refused with status 503"),
        ("error.status", b"503"),
        ("attempts", b"9"),
        ("maybe.reached", b"true"),
    ]
    row = recorded(work(notification(trace_id="t"), stage="dlq", headers=headers))
    assert (row.notification_id, row.channel, row.status) == ("n-1", "firebase", Status.DLQ)
    assert (row.attempts, row.last_error, row.http_status) == (9, "refused with status 503", 503)
    assert (row.stage, row.maybe_reached, row.trace_id) == ("dlq", True, "t")


def test_a_record_that_nobody_can_read_becomes_a_row_too() -> None:
    """Under its synthetic id; without a header the fault itself is the error."""
    row = recorded(work(b"\xff", stage="dlq"))
    assert row.notification_id.startswith("notification-firebase/0/0/1700000000000-")
    assert row.last_error == "the value is not a notifications.v1.Notification"


def test_the_routers_dlq_has_no_channel() -> None:
    """Its rows' channel is empty."""
    assert recorded(work(notification(), stage="dlq"), "").channel == ""


async def test_a_recorder_holds_nothing_back() -> None:
    """Its capacity alone does."""
    handler = DlqHandler(cast("Pipeline", Frame("firebase")))
    assert handler.paused([Partition("t", 0)]) == ()
    assert handler.tasks() == []
    handler.cancel()
    assert await handler.close() == 0
