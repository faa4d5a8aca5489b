"""When `ringonce prune` refuses."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ringonce.kafka.topics import Keeping, TopicAdmin
from ringonce.settings import RoleSettings, load
from ringonce.tools.prune import Refused, check, kept, prune

DAY = 86_400.0
WEEK = 7 * DAY
USUAL = {"main": Keeping(WEEK, WEEK), "dlq": Keeping(30 * DAY, WEEK)}


def test_what_a_topic_keeps_is_retention_and_a_segment() -> None:
    """A segment goes as a whole, when its last record is old enough."""
    assert Keeping(2.0, 3.0).longest == 5.0
    assert Keeping(None, 3.0).longest is None


@pytest.mark.parametrize("days", [37, 38, 400])
def test_older_than_any_topic_keeps_is_allowed(days: float) -> None:
    """To the day."""
    check(days * DAY, USUAL)


@pytest.mark.parametrize("age", [0.0, 30 * DAY, 37 * DAY - 1])
def test_what_a_topic_can_still_hold_is_refused(age: float) -> None:
    """With the topic, and the least that is allowed, which is."""
    with pytest.raises(Refused, match=r"topic dlq can hold records for 37d .*sent again.*the least") as caught:
        check(age, USUAL)
    assert (caught.value.exit_code, len(str(caught.value).splitlines())) == (1, 1)


def test_unlimited_retention_is_refused_whatever_the_age() -> None:
    """No row is ever too old for such a topic."""
    with pytest.raises(Refused, match=r"topic dlq keeps its records for ever \(retention"):
        check(1e9, USUAL | {"dlq": Keeping(None, WEEK)})
    with pytest.raises(Refused, match="topic a and 1 more keep their records for ever"):
        check(1e9, {"b": Keeping(None, 1.0), "a": Keeping(None, 1.0), "main": Keeping(WEEK, WEEK)})


def test_without_any_topic_nothing_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix that is none of the fleet's must not be a licence."""
    monkeypatch.setattr(TopicAdmin, "keeping", lambda *_: {})
    with pytest.raises(Refused, match=r"there is no topic x-notification-events, .*RINGONCE_TOPIC_PREFIX"):
        kept(load(RoleSettings, kafka_bootstrap="nowhere:1", topic_prefix="x-"))


@pytest.mark.parametrize("age", ["30", "soon", "-1d", "", "1d12h", "1e3d"])
def test_what_is_no_age(age: str) -> None:
    """It needs a unit: who means days must not get seconds."""
    done = CliRunner().invoke(prune, ["--older-than", age])
    assert done.exit_code == 2
    assert "is not a length of time such as 12h, 40d or 6w" in done.output


def test_an_age_beyond_all_rows() -> None:
    """Said at once: a database could not even count so far back."""
    done = CliRunner().invoke(prune, ["--older-than", "6000w"])
    assert (done.exit_code, "is more than a hundred years" in done.output) == (2, True)
