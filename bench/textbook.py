"""The textbook design, to compare with: what a careful engineer writes in an afternoon.

Poll one record, post it, write its two rows in one transaction, commit its offset, and only then look at the next. It
loses nothing and has nothing to reconcile. Of its kind it is well made: connections are kept, statements are prepared,
the client library fetches ahead, and nobody waits for the offset's commit, which the gate makes harmless.

    python -m bench.textbook BOOTSTRAP TOPIC DATABASE_URL PROVIDER_URL

runs until SIGTERM.
"""

from __future__ import annotations

import hmac
import json
import signal
import sys
from typing import TYPE_CHECKING, Final

import httpx
import psycopg
from confluent_kafka import Consumer

from bench.rig import SECRET
from ringonce.kafka.codec import decode

if TYPE_CHECKING:
    from types import FrameType

GROUP: Final = "textbook"

GATE: Final = (
    "INSERT INTO processed_events (consumer, notification_id, owner) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
)
HISTORY: Final = """
INSERT INTO notifications_log (
    notification_id, channel, user_id, status, attempts, sent_by, sent_at, http_status, stage, trace_id, event_key,
    root_id, created_at
) VALUES (%s, %s, %s, 'delivered', 1, %s, now(), %s, 'main', %s, %s, %s, %s)
ON CONFLICT (notification_id, channel) DO NOTHING
"""


def main(bootstrap: str, topic: str, database: str, provider: str) -> None:
    """Deliver what is in the topic, one after the other."""
    stopped = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    with httpx.Client(timeout=3.0) as http, psycopg.connect(database, autocommit=True) as connection:
        while not stopped:
            message = consumer.poll(0.5)
            if message is None or message.error():
                continue
            notification = decode(message.value())
            body = json.dumps(notification.json_fields()).encode()
            answer = http.post(
                provider,
                content=body,
                headers={
                    "Content-Type": "application/json",
                    "Idempotency-Key": notification.id,
                    "X-Signature": hmac.digest(SECRET.encode(), body, "sha256").hex(),
                    "X-Channel": "firebase",
                    "X-Trace-Id": notification.trace_id,
                },
            )
            answer.raise_for_status()
            created = None if notification.created_at is None else notification.created_at.rfc3339()
            with connection.transaction():
                connection.execute(GATE, ("firebase-sender", notification.id, GROUP))
                connection.execute(
                    HISTORY,
                    (
                        notification.id,
                        "firebase",
                        notification.user_id,
                        GROUP,
                        answer.status_code,
                        notification.trace_id,
                        notification.event_key,
                        notification.id,
                        created,
                    ),
                )
            consumer.commit(message=message, asynchronous=True)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
