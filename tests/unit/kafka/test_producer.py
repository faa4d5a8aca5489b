"""What a delivery report's error means for its record."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ringonce.kafka.port import PublishUncertain, Unpublishable
from ringonce.kafka.producer import judge


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    ],
)
def test_errors_about_the_record_itself_are_for_good(code: int) -> None:
    """It is never published as it is."""
    assert type(judge(KafkaError(code))) is Unpublishable


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.UNKNOWN,
    ],
)
def test_every_other_error_is_to_be_repeated(code: int) -> None:
    """Its fate is unknown, or the broker will not have it now: nothing is given up for that."""
    failure = judge(KafkaError(code))
    assert type(failure) is PublishUncertain
    assert failure.detail
