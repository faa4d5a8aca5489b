"""ntfy and email on real servers: routed, delivered, tried again, dead-lettered and replayed like any other channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.channels.registry import CATALOGUE
from ringonce.domain.notification import Channel
from ringonce.mock.mail import MailServer
from ringonce.mock.thread import MockProvider

if TYPE_CHECKING:
    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]


def prepare(site: Site, name: str) -> None:
    """A site with this channel alone."""
    site.prepare([])
    site.create_topics({name: CATALOGUE[name].ladder})


def counted(site: Site) -> dict[str, int]:
    """Attempts by root."""
    with psycopg.connect(site.database_url) as connection:
        return dict(connection.execute("SELECT root_id, attempts FROM notification_attempts").fetchall())


async def test_email(site: Site, fleet: Fleet) -> None:
    """By reply: taken, tried again in each stage, gone, rejected, and without an answer, which is counted."""
    prepare(site, "email")
    async with MailServer("email") as server:
        settings: dict[str, Any] = {"target": server.url, "from_address": "a@example.org", "starttls": "off"}
        fleet.router(channels=("email",))
        fleet.sender("email", **settings)
        fleet.recorder("email")
        targets = {
            "well": "to@example.com",
            "busy": "reply-451@example.com",
            "gone": "reply-550@example.com",
            "spam": "after-554@example.com",
            "cut": "cut@example.com",
            "none": "nobody",
        }
        ids = site.send([notification(name, Channel.EMAIL, target=target) for name, target in targets.items()])
        await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
        rows = {name.removeprefix("n-"): row for name, row in site.history.rows().items()}
        assert {name: row["status"] for name, row in rows.items()} == {
            "well": "delivered",
            "busy": "dlq",
            "gone": "gone",
            "spam": "dlq",
            "cut": "dlq",
            "none": "dlq",
        }
        assert rows["cut"]["maybe_reached"]
        assert rows["none"]["last_error"] == "the target is no mail address"
        assert not any("example.com" in str(row["last_error"]) for row in rows.values())
        assert counted(site) == {"n-well": 1, "n-busy": 3, "n-gone": 1, "n-spam": 1, "n-cut": 3}
        assert list(server.ids.values()) == [1]

        replayed = await fleet.replay("email")
        assert replayed.published >= 3
        await eventually(lambda: counted(site)["n-busy"] == 6, so_far=lambda: counted(site))


async def test_ntfy(site: Site, fleet: Fleet) -> None:
    """One call per stage; a topic that is none goes to the DLQ."""
    prepare(site, "ntfy")
    with MockProvider("ntfy") as provider:
        fleet.router(channels=("ntfy",))
        fleet.sender("ntfy", target=provider.url, token="tk_1")  # noqa: S106 - it opens nothing
        fleet.recorder("ntfy")
        ids = site.send(
            [notification(number, Channel.NTFY, target=target) for number, target in enumerate(("alerts", "a b"))],
        )
        await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
        assert site.history.statuses() == {"delivered": 1, "dlq": 1}
        assert len(provider.acts()) == 1
        provider.chaos(STATUS=503, RETRY_AFTER="")
        ids = site.send([notification("late", Channel.NTFY, target="alerts")])
        await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
        assert counted(site)["n-late"] == 3
        assert len(provider.calls()) == 4
