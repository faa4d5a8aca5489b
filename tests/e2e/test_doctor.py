"""`ringonce doctor` on real servers, and where there are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.waiting import eventually

from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

SECRET = "not-to-be-shown"  # noqa: S105 - planted, to be looked for


def doctor(programs: Programs, *flags: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and findings by subject."""
    code, text = programs.run("ringonce", "doctor", "--json", *flags, **environment)
    assert SECRET not in text
    return code, {finding["subject"]: finding for finding in json.loads(text)}


@pytest.mark.embedded
def test_a_fleet_that_can_start(site: Site, programs: Programs, providers: Mapping[str, MockProvider]) -> None:
    """Exit 0; what one broker cannot promise is a warning, each with what to do."""
    site.prepare(partitions=6)
    code, found = doctor(programs)
    assert code == 0
    assert {subject: finding["verdict"] for subject, finding in found.items()} == {
        "Kafka": "warning",
        "14 topics": "warning",
        "clocks": "ok",
        "PostgreSQL": "ok",
        "schema": "ok",
        **{f"provider of {name}": "ok" for name in providers},
    }
    assert all(finding["advice"] for finding in found.values() if finding["verdict"] != "ok")


async def test_clocks_are_compared_when_it_is_asked_for(site: Site, programs: Programs) -> None:
    """Broker and test share a clock. Without the flag it says how to get it, and makes no topic."""
    site.prepare(partitions=6)
    before = site.topics()
    _, found = doctor(programs)
    assert "`ringonce doctor --clock`" in found["clocks"]["text"]
    assert site.topics() == before
    code, found = doctor(programs, "--clock")
    assert (code, found["clocks"]["verdict"]) == (0, "ok")
    assert "within 1 s" in found["clocks"]["text"]
    await eventually(lambda: site.topics() == before)


def test_nothing_is_changed(site: Site, programs: Programs, providers: Mapping[str, MockProvider]) -> None:
    """No topic, no schema, no call; what is missing is named with what makes it."""
    site.make_database()
    code, found = doctor(programs)
    assert code == 3
    assert found["14 topics"]["verdict"] == found["schema"]["verdict"] == "refused"
    assert found["14 topics"]["advice"] == "`ringonce topics create` makes it"
    assert found["schema"]["advice"] == "`ringonce db init` makes it"
    assert doctor(programs) == (code, found)
    assert [provider.stats()["requests"] for provider in providers.values()] == [0, 0, 0]


def test_a_topic_that_is_unfit(site: Site, programs: Programs) -> None:
    """Named, with the limit that it has."""
    site.prepare(partitions=6)
    unfit = site.names.stage("apns", "retry-5m")
    site.shrink(unfit, 1_000_000)
    code, found = doctor(programs)
    assert code == 3
    assert found[f"topic {unfit}"]["verdict"] == "refused"
    assert "max.message.bytes is 1000000" in found[f"topic {unfit}"]["text"]
    assert "kafka-configs.sh" in found[f"topic {unfit}"]["advice"]


@pytest.mark.embedded
def test_a_provider_that_is_away_is_a_warning(site: Site, programs: Programs) -> None:
    """Its sender starts and waits for it; a webhook's allowed hosts are asked too."""
    site.prepare(partitions=6)
    away = free_port()
    code, found = doctor(
        programs,
        RINGONCE_CHANNELS__APNS__TARGET=f"http://127.0.0.1:{away}/send",
        RINGONCE_CHANNELS__WEBHOOK__ALLOW_HOSTS=f"127.0.0.1:{away}",
    )
    assert code == 0
    assert found["provider of apns"]["verdict"] == "warning"
    assert f"127.0.0.1:{away} takes no connection" in found["provider of apns"]["text"]
    assert found["provider of webhook"]["verdict"] == "warning"


@pytest.mark.embedded
def test_settings_that_a_sender_would_refuse(site: Site, programs: Programs) -> None:
    """Each is said once."""
    site.prepare(partitions=6)
    code, found = doctor(programs, RINGONCE_CHANNELS__APNS__TARGET="nowhere", RINGONCE_LOG_LEVEL="LOUD")
    assert code == 3
    assert found["apns"]["verdict"] == "refused"
    assert "RINGONCE_CHANNELS__APNS__TARGET" in found["apns"]["text"]
    assert found["settings"]["text"].startswith("RINGONCE_LOG_LEVEL")


@pytest.mark.embedded
def test_servers_that_are_away(site: Site, programs: Programs) -> None:
    """Exit 4, whatever else there is to say; the other server is looked at all the same."""
    site.make_database()
    away = f"127.0.0.1:{free_port()}"
    code, found = doctor(programs, DATABASE_URL=f"postgresql://someone:{SECRET}@{away}/x")
    assert (code, found["PostgreSQL"]["verdict"], found["14 topics"]["verdict"]) == (4, "away", "refused")
    code, found = doctor(programs, KAFKA_BOOTSTRAP=away)
    assert (code, found["Kafka"]["verdict"], found["schema"]["verdict"]) == (4, "away", "refused")
    assert away in found["Kafka"]["text"]


@pytest.mark.embedded
def test_in_words(site: Site, programs: Programs) -> None:
    """One line for each finding, and one for what to do; no colours, because this is no terminal."""
    site.prepare(partitions=6)
    code, text = programs.run("ringonce", "doctor")
    assert code == 0
    assert f"warning  Kafka: {site.bootstrap}: 1 broker\n         → " in text
    assert "ok       schema: gate and history are there\n" in text
    assert "\x1b" not in text
