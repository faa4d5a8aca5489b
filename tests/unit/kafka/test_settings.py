from __future__ import annotations

import pytest

from ringonce.kafka.settings import ConsumerSettings


@pytest.mark.parametrize("session", [1.0, 2.0, 10.0, 300.0])
def test_a_member_is_sure_of_its_session_but_for_one_heartbeat(session: float) -> None:
    """The group counts from the last heartbeat, the member from its last poll: a heartbeat may lie between them."""
    settings = ConsumerSettings("broker:9092", "group", "client", session_timeout=session)
    told = settings.librdkafka()
    assert told["session.timeout.ms"] == session * 1000
    assert told["heartbeat.interval.ms"] <= told["session.timeout.ms"] / 3
    assert settings.certain * 1000 <= told["session.timeout.ms"] - told["heartbeat.interval.ms"]
