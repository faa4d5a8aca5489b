"""Who a record is, whatever its producer says."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.domain.identity import (
    MAX_REPLAYS,
    Identity,
    Origin,
    ReplayClaim,
    identify,
    replay_id,
    synthetic_id,
    valid_id,
)

VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))
valid = st.text(VISIBLE, min_size=1, max_size=200).filter(lambda text: not text.startswith("replay-"))
origins = st.builds(
    Origin,
    st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249),
    st.integers(0, 10**9 - 1),
    st.integers(0, 10**18 - 1),
    st.integers(-1, 10**18 - 1),
)


@given(valid)
def test_visible_ascii_is_a_valid_id(text: str) -> None:
    """1 to 200 characters of it."""
    assert valid_id(text)


@pytest.mark.parametrize(
    "text",
    ["", "x" * 201, "a b", "a\n", "a\0", "ä", "😀", "\ud800", "a\x7f", "replay-1-n", "replay-000-", "replay-12345-x"],
)
def test_what_is_no_valid_id(text: str) -> None:
    """Blanks, controls, other alphabets, too long, and what begins like a replay's."""
    assert not valid_id(text)


@pytest.mark.parametrize(
    "text", ["replay", "replay-", "replay--x", "replay-x-1", "xreplay-1-n", "Replay-1-n", "x" * 200]
)
def test_what_only_resembles_a_replay_is_valid(text: str) -> None:
    """Only `replay-<digits>-` is taken."""
    assert valid_id(text)


@given(valid, st.integers(1, MAX_REPLAYS))
def test_a_replay_that_adds_up_is_believed(root: str, count: int) -> None:
    """Its id is its own, its root and key are the original's."""
    claim = ReplayClaim(replay_id(root, count), root, count)
    assert identify(root, claim) == Identity(f"replay-{count}-{root}", root, count, root)
    assert identify(root, claim).replay_of == root


@pytest.mark.parametrize(
    "claim",
    [
        ReplayClaim(),
        ReplayClaim("replay-1-n", None, 1),
        ReplayClaim("replay-1-n", "m", 1),
        ReplayClaim("replay-1-m", "n", 1),
        ReplayClaim("replay-1-n", "n", None),
        ReplayClaim("replay-1-n", "n", 2),
        ReplayClaim("replay-0-n", "n", 0),
        ReplayClaim("replay--1-n", "n", -1),
        ReplayClaim(f"replay-{MAX_REPLAYS + 1}-n", "n", MAX_REPLAYS + 1),
        ReplayClaim(None, "n", 1, "my-key"),
        ReplayClaim("n", "n", 1),
    ],
)
def test_a_claim_that_does_not_add_up_is_not_believed(claim: ReplayClaim) -> None:
    """The record is then the original, its key included."""
    assert identify("n", claim) == Identity("n", "n", 0, "n")
    assert identify("n", claim).replay_of is None


@pytest.mark.parametrize(("key", "used"), [(None, "n"), ("k", "k"), ("", "n"), ("a b", "n"), ("x" * 201, "n")])
def test_explicit_key_is_used_where_it_is_valid(key: str | None, used: str) -> None:
    """Only a replay may bring another key than its root's id."""
    assert identify("n", ReplayClaim("replay-3-n", "n", 3, key)).key == used
    assert identify("n", ReplayClaim(key=key)).key == "n"


@given(origins)
def test_an_origin_survives_its_header(origin: Origin) -> None:
    """What was written is read."""
    assert Origin.parse(str(origin)) == origin


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t/0/0",
        "t/0/0/0/0",
        "/0/0/0",
        "t/-1/0/0",
        "t/0/-1/0",
        "t/0/0/-2",
        "t/a/0/0",
        "t t/0/0/0",
        "t/0/0/0\n",
        "t/٣/0/0",
    ],
)
def test_what_is_no_origin(text: str) -> None:
    """Is none."""
    assert Origin.parse(text) is None


@given(origins, st.none() | st.binary(max_size=50))
def test_synthetic_ids_are_stable_and_tell_places_and_values_apart(origin: Origin, value: bytes | None) -> None:
    """The same record always gets the same one; another place or another value another one."""
    first = synthetic_id(origin, value)
    assert first == synthetic_id(origin, value)
    assert first.startswith(f"{origin}-")
    assert len(first) == len(str(origin)) + 9
    assert first != synthetic_id(origin, (value or b"") + b"x")
    moved = Origin(origin.topic, origin.partition, origin.offset + 1, origin.timestamp_ms)
    assert first != synthetic_id(moved, value)
