"""What the exporter makes of what it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.clock import FakeClock

from ringonce.domain.stages import DLQ, MAIN
from ringonce.errors import ServerUnreachable
from ringonce.kafka.outside import Ahead
from ringonce.kafka.port import Partition, Record
from ringonce.observe.metrics import Metric
from ringonce.runtime.surveyor import LEISURE, OVERDUE, Look, Post, Sight, Surveyor, survey
from ringonce.store.schema import Count

if TYPE_CHECKING:
    from ringonce.kafka.port import Headers

NOW = 1_000_000.0


class Groups:
    """What lies before each topic."""

    def __init__(self, **ahead: Ahead) -> None:
        self._ahead = ahead

    def ahead(self, group: str, topic: str) -> Ahead:
        """See `Groups.ahead`."""
        assert group == "g"
        return self._ahead.get(topic, Ahead(0, 0, []))


def record(topic: str, at: float, number: int = 0, headers: Headers | None = None) -> Record:
    return Record(Partition(topic, number), 5, int(at * 1000), None, None, headers or [])


def post(stage: str, delay: float = 0.0) -> Post:
    return Post("g", stage.replace("-", "_"), "firebase", stage, delay)


def ages(*sights: Sight, now: float = NOW) -> dict[str, float]:
    clock = FakeClock()
    kafka = Look("kafka", lambda: list(sights), clock, 5.0)
    database: Look[list[Count]] = Look("database", list, clock, 5.0)
    kafka.look()
    surveyor = Surveyor(kafka, database, _At(now))
    return {
        sample.labels[1]: float(sample.value)  # type: ignore[arg-type]
        for sample in surveyor.samples()
        if sample.metric is Metric.OLDEST_AGE
    }


class _At(FakeClock):
    def __init__(self, now: float) -> None:
        super().__init__()
        self._at = now

    def now(self) -> float:
        return self._at


def test_the_oldest_of_all_partitions_counts() -> None:
    groups = Groups(main=Ahead(7, 9, [record("main", NOW - 3, 0), record("main", NOW - 200, 1)]))
    [sight] = survey(groups, [post(MAIN)])
    assert (sight.lag, sight.size) == (7, 9)
    assert ages(sight) == {MAIN: 200.0}


def test_waiting_in_a_retry_stage_before_it_is_due_is_no_age() -> None:
    """From the moment at which it is due it is."""
    groups = Groups(retry_30s=Ahead(1, 1, [record("retry_30s", NOW - 20)]))
    sights = survey(groups, [post("retry-30s", 30.0)])
    assert ages(*sights) == {"retry-30s": 0.0}
    assert ages(*sights, now=NOW + 15) == {"retry-30s": 5.0}


def test_a_dead_letters_age_counts_from_its_death() -> None:
    """Its record keeps the time at which it came in."""
    died = [("error.timestamp", str(int((NOW - 10) * 1000)).encode())]
    groups = Groups(dlq=Ahead(1, 1, [record("dlq", NOW - 5000, headers=list(died))]))
    assert ages(*survey(groups, [post(DLQ)])) == {DLQ: 10.0}


def test_nothing_old_is_shown_once_a_look_has_failed() -> None:
    """A figure that has stopped moving would look like a fleet in order."""
    answers: list[list[Count] | None] = [[Count("firebase", "delivered", 3)], None, [Count("firebase", "dlq", 1)]]

    def ask() -> list[Count]:
        answer = answers.pop(0)
        if answer is None:
            raise ServerUnreachable("PostgreSQL", "db", "gone")
        return answer

    clock = FakeClock()
    database = Look("database", ask, clock, 5.0)
    seen: list[list[Count] | None] = [database.seen]
    troubles = []
    for _ in range(3):
        database.look()
        seen.append(database.seen)
        troubles.append(database.trouble)
    assert seen == [None, [Count("firebase", "delivered", 3)], None, [Count("firebase", "dlq", 1)]]
    assert troubles == ["", "it does not answer", ""]


def test_a_look_that_never_comes_back_makes_what_was_seen_worthless() -> None:
    clock = FakeClock()
    look = Look("database", lambda: [1], clock, 5.0)
    look.look()
    clock.advance(5.0 + OVERDUE - 1)
    assert look.seen == [1]
    clock.advance(2)
    assert look.seen is None


def test_counting_that_takes_long_is_done_less_often() -> None:
    """A look that takes a second is followed by a pause of twenty; what it has brought is no older for that."""
    clock = FakeClock()

    def count() -> list[int]:
        clock.advance(1.0)
        return [1]

    look = Look("database", count, clock, 5.0, LEISURE)
    look.look()
    clock.advance(LEISURE + OVERDUE - 1)
    assert look.seen == [1]
    clock.advance(2)
    assert look.seen is None
