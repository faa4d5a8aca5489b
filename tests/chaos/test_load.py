"""The load: what it writes down is what lies in the topic."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from tests.chaos.canaries import Canaries
from tests.chaos.episode import MIX
from tests.chaos.load import Load, digest
from tests.chaos.nonsense import NONSENSE
from tests.chaos.sent import Fate, Kind
from tests.fixtures.waiting import eventually

from ringonce.domain.identity import valid_id
from ringonce.kafka.codec import Undecodable, decode

if TYPE_CHECKING:
    from tests.fixtures.site import Site

BIRDS: Final = Canaries.plant(1, "secret")


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_can_never_be_delivered(name: str) -> None:
    """No value, no notification, no valid id, no channel that is configured, or a target that may not be called."""
    value = NONSENSE[name](Random(1))  # noqa: S311 - to be repeated
    try:
        found = decode(value)
    except Undecodable:
        return
    assert not valid_id(found.id) or found.channel not in {1, 2, 3} or found.target.startswith("http://169.254.")


@pytest.mark.broker
@pytest.mark.database
async def test_every_record_is_written_down_as_it_lies_there(site: Site) -> None:
    """Its place, its digest, and the root under which it must end; all kinds come, most of them plain."""
    site.prepare(["firebase"])
    load = Load(site, Random(1), BIRDS, 2000.0, MIX)  # noqa: S311 - to be repeated
    load.start()
    # Nothing can be repeated before the first is acknowledged, however long that takes.
    repeated = (Kind.DUPLICATE, Kind.TWIN)
    await eventually(lambda: load.offered >= 2000 and all(load.kinds[kind] > 5 for kind in repeated))
    load.stop()
    sent = {(one.partition, one.offset): one for one in load.seen()}
    there = {(message.partition() or 0, message.offset() or 0): message for message in site.records(site.names.entry)}
    assert sent.keys() == there.keys()
    assert all(sent[place].digest == digest(message.value()) for place, message in there.items())
    assert {one.fate for one in sent.values()} == {Fate.OK}
    kinds = Counter(one.kind for one in sent.values())
    assert all(kinds[kind] > 0 for kind in MIX)
    assert kinds[Kind.PLAIN] > 0.8 * len(sent)
    assert all(one.key for one in sent.values())
    originals = {one.key: one.digest for one in sent.values() if one.kind is Kind.PLAIN}
    assert all(originals[one.key] == one.digest for one in sent.values() if one.kind is Kind.DUPLICATE)
    assert all(originals[one.key] != one.digest for one in sent.values() if one.kind is Kind.TWIN)
