from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ringonce.mock.memory import Call, Kind, Memory


def call(key: str = "k", kind: Kind = Kind.ACT, digest: bytes = b"a") -> Call:
    return Call(key.encode(), digest, monotonic=1.0, wall=2.0, kind=kind)


def finished(memory: Memory, made: Call, status: int | None = 200) -> Call:
    memory.arrived(made)
    if status is not None:
        memory.answered(made, status)
    memory.left(made)
    return made


def test_acts_beyond_the_first_of_a_key_are_duplicates() -> None:
    memory = Memory()
    for key in ("a", "b", "a", "a"):
        finished(memory, call(key))
    assert memory.stats() | {"requests": 4, "acts": 4, "keys": 2, "duplicates": 2, "differing": 0} == memory.stats()


def test_a_refusal_is_no_act_and_no_duplicate() -> None:
    memory = Memory()
    finished(memory, call(kind=Kind.REFUSAL), 503)
    finished(memory, call())
    stats = memory.stats()
    assert (stats["acts"], stats["refused"], stats["duplicates"]) == (1, 1, 0)
    assert stats["by_status"] == {"200": 1, "503": 1}


def test_an_act_counts_from_arrival_and_its_status_from_the_answer() -> None:
    memory = Memory()
    made = call()
    memory.arrived(made)
    assert [act.status for act in memory.acts()] == [None]
    assert memory.stats()["in_flight"] == 1
    memory.answered(made, 200)
    memory.left(made)
    assert [act.status for act in memory.acts()] == [200]
    assert memory.stats()["in_flight"] == 0


def test_a_refusal_nobody_heard_is_an_act() -> None:
    memory = Memory()
    finished(memory, call(kind=Kind.REFUSAL), None)
    stats = memory.stats()
    assert (stats["acts"], stats["refused"], stats["unanswered"]) == (1, 0, 1)
    assert memory.acted_on(b"k")


def test_a_refusal_nobody_heard_is_a_replay_where_keys_are_honoured() -> None:
    memory = Memory()
    for key in ("k", "k", "another"):
        lost = call(key, kind=Kind.REFUSAL)
        memory.arrived(lost)
        memory.left(lost, dedup=True)
    stats = memory.stats()
    assert (stats["acts"], stats["replayed"], stats["duplicates"]) == (2, 1, 0)


def test_a_forged_call_touches_no_key_even_unanswered() -> None:
    memory = Memory()
    finished(memory, call(kind=Kind.FORGED), None)
    stats = memory.stats()
    assert (stats["acts"], stats["keys"], stats["bad_signatures"]) == (0, 0, 1)
    assert memory.calls_of(b"k") == 0


def test_one_key_with_two_bodies_differs_once() -> None:
    memory = Memory()
    for digest in (b"a", b"b", b"a", b"c"):
        finished(memory, call(digest=digest))
    assert memory.stats()["differing"] == 1


def test_calls_without_a_key_are_nobodys_duplicates() -> None:
    memory = Memory()
    finished(memory, call(""))
    finished(memory, call("", digest=b"b"))
    stats = memory.stats()
    assert (stats["acts"], stats["keys"], stats["duplicates"], stats["differing"]) == (2, 0, 0, 0)


def test_acts_are_asked_for_by_number() -> None:
    memory = Memory(limit=3)
    for number in range(1, 6):
        finished(memory, call(f"k{number}"))
    assert [act.number for act in memory.acts()] == [3, 4, 5]
    assert [act.key for act in memory.acts(since=4)] == ["k5"]
    assert [act.number for act in memory.acts(since=1, limit=2)] == [3, 4]
    assert memory.acts(since=5) == []
    assert memory.acts(since=99) == []


def test_what_is_remembered_is_bounded_and_a_key_goes_with_its_last_call() -> None:
    memory = Memory(limit=2)
    for key in ("a", "b", "a", "c"):
        finished(memory, call(key))
    assert [seen.key for seen in memory.calls()] == ["a", "c"]
    assert (memory.calls_of(b"a"), memory.calls_of(b"b")) == (1, 0)
    assert memory.stats()["remembered"] == 2
    assert memory.stats()["acts"] == 4


def test_the_most_in_flight_is_kept() -> None:
    memory = Memory()
    made = [call(str(number)) for number in range(3)]
    for each in made:
        memory.arrived(each)
    for each in made:
        memory.left(each)
    finished(memory, call("d"))
    assert (memory.stats()["in_flight"], memory.stats()["max_in_flight"]) == (0, 3)


@given(
    limit=st.integers(1, 6),
    events=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(Kind), st.sampled_from([None, 200, 503]))),
)
def test_the_counts_add_up(limit: int, events: list[tuple[str, Kind, int | None]]) -> None:
    memory = Memory(limit)
    for key, kind, status in events:
        finished(memory, call(key, kind), status)
    count = {name: value for name, value in memory.stats().items() if isinstance(value, int)}
    assert count["requests"] == len(events)
    assert count["requests"] == count["acts"] + count["replayed"] + count["refused"] + count["bad_signatures"]
    assert count["unanswered"] == sum(status is None for _, _, status in events)
    assert count["remembered"] == min(limit, len(events))
    assert count["duplicates"] <= max(0, count["acts"] - 1)
    for name in "ab":
        genuine = [seen for seen in memory.calls() if seen.key == name and seen.kind != Kind.FORGED]
        assert memory.calls_of(name.encode()) == len(genuine)
        assert memory.acted_on(name.encode()) == any(seen.kind == Kind.ACT for seen in genuine)
