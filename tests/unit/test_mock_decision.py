from __future__ import annotations

import hashlib
import hmac
import json
import random

import pytest

from ringonce.mock.decision import DELIVERED, Answer, Cut, Decision, Delivery, Plan, Signatures, Silence, decide
from ringonce.mock.faults import Dribble, Faults, Reset
from ringonce.mock.memory import Call, Kind, Memory

SECRET = b"s3cret"
BODY = b'{"id": "n-1"}'


def delivery(body: bytes = BODY, signature: bytes = b"", key: bytes = b"k") -> Delivery:
    return Delivery(key, signature, body)


def steered(**wish: object) -> Delivery:
    return delivery(json.dumps({"payloadJson": json.dumps({"mock": wish})}).encode())


def acted(key: bytes = b"k") -> Memory:
    memory = Memory()
    memory.arrived(Call(key, b"", 0.0, 0.0, Kind.ACT))
    return memory


def decided(faults: Faults, made: Delivery | None = None, memory: Memory | None = None, drawn: float = 0.5) -> Decision:
    return decide(made or delivery(), faults, memory or Memory(), lambda: drawn)


@pytest.mark.parametrize(
    ("faults", "plan", "kind"),
    [
        (Faults(), Answer(200), Kind.ACT),
        (Faults(latency_ms=20), Answer(200, wait=0.02), Kind.ACT),
        (Faults(hang=True, status=503), Silence(), Kind.ACT),
        (Faults(reset=Reset.AFTER), Cut(), Kind.ACT),
        (Faults(reset=Reset.BEFORE, latency_ms=10), Cut(0.01), Kind.ACT),
        (Faults(reset=Reset.MID), Answer(200, cut=True), Kind.ACT),
        (Faults(reset=Reset.MID, status=500), Answer(500, retry_after="1", cut=True), Kind.REFUSAL),
        (Faults(status=201), Answer(201), Kind.ACT),
        (Faults(status=302, location="/b"), Answer(302, location="/b"), Kind.REFUSAL),
        (Faults(status=429, retry_after="60"), Answer(429, retry_after="60"), Kind.REFUSAL),
        (Faults(status=503, retry_after=""), Answer(503), Kind.REFUSAL),
        (Faults(fail_rate_503=0.6), Answer(503, retry_after="1"), Kind.REFUSAL),
        (Faults(fail_rate_503=0.5), Answer(200), Kind.ACT),
        (Faults(fail_rate_503=0.4, fail_rate_timeout=0.2, timeout_hang_sec=3), Answer(504, 3.0, "1"), Kind.REFUSAL),
        (Faults(fail_rate_503=0.4, fail_rate_timeout=0.1), Answer(200), Kind.ACT),
    ],
)
def test_faults_become_a_plan(faults: Faults, plan: Plan, kind: Kind) -> None:
    decision = decided(faults)
    assert (decision.plan, decision.kind) == (plan, kind)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_rate_is_the_share_that_fails(rate: float) -> None:
    chance = random.Random(1).random  # noqa: S311 - luck, reproducible
    decisions = [decide(delivery(), Faults(fail_rate_503=rate), Memory(), chance) for _ in range(2000)]
    failed = sum(decision.plan == Answer(503, retry_after="1") for decision in decisions)
    assert failed == pytest.approx(2000 * rate, abs=100 if 0 < rate < 1 else 0)


def test_a_healthy_provider_draws_no_chance() -> None:
    def chance() -> float:
        raise AssertionError("drawn")

    assert decide(delivery(), Faults(), Memory(), chance) is DELIVERED


def test_every_fault_that_took_effect_is_named() -> None:
    faults = Faults(fail_rate_503=1, latency_ms=1, dribble=Dribble.BODY, body_bytes=9, gzip_bomb=True, reset=Reset.MID)
    hits = {"FAIL_RATE_503", "LATENCY_MS", "DRIBBLE", "BODY_BYTES", "GZIP_BOMB", "RESET"}
    assert set(decided(faults).hits) == hits
    assert decided(Faults(hang=True)).hits == ("HANG",)
    assert decided(Faults(fail_rate_503=0.1)).hits == ()


@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_a_signature_is_of_the_exact_bytes(case: type[str]) -> None:
    signatures = Signatures(SECRET)
    signature = case(hmac.new(SECRET, BODY, hashlib.sha256).hexdigest()).encode()
    assert signatures.genuine(delivery(BODY, signature))
    assert not signatures.genuine(delivery(BODY + b" ", signature))


@pytest.mark.parametrize("signature", [b"", b"00", b"\xff" * 64, b"0" * 64])
def test_a_bad_signature_is_answered_401_whatever_the_faults(signature: bytes) -> None:
    decision = decide(delivery(BODY, signature), Faults(hang=True), Memory(), lambda: 0.0, Signatures(SECRET))
    assert isinstance(decision.plan, Answer)
    assert (decision.plan.status, decision.kind) == (401, Kind.FORGED)


def test_a_message_steers_past_the_providers_own_faults() -> None:
    faults = Faults(fail_rate_503=1, dribble=Dribble.BODY)
    decision = decided(faults, steered(status=410, retry_after=60))
    assert (decision.plan, decision.kind) == (Answer(410, retry_after="60"), Kind.REFUSAL)
    assert decision.hits == ("STEERED", "STATUS")
    assert decision.shape.dribble is Dribble.NEVER
    assert decided(faults, steered(status=200)).plan == Answer(200)
    assert decided(faults, steered(hang=True)).plan == Silence()


def test_steering_ends_after_its_times() -> None:
    wish = steered(status=410, times=1)
    assert decided(Faults(), wish).plan == Answer(410)
    assert decided(Faults(), wish, acted()) is DELIVERED
    assert decided(Faults(), wish, acted(b"another")).plan == Answer(410)


def test_a_misspelt_wish_is_answered_400() -> None:
    decision = decided(Faults(), steered(statsu=410))
    assert isinstance(decision.plan, Answer)
    assert decision.plan.status == 400
    assert "statsu" in decision.plan.reason


@pytest.mark.parametrize(
    ("faults", "plan", "kind"),
    [
        (Faults(), Answer(200), Kind.REPLAY),
        (Faults(status=201), Answer(200), Kind.REPLAY),
        (Faults(hang=True), Silence(), Kind.REPLAY),
        (Faults(reset=Reset.AFTER), Cut(), Kind.REPLAY),
        (Faults(fail_rate_503=1), Answer(503, retry_after="1"), Kind.REFUSAL),
    ],
)
def test_who_honours_keys_acts_once(faults: Faults, plan: Plan, kind: Kind) -> None:
    honouring = faults.changed({"DEDUP": True})
    decision = decided(honouring, memory=acted())
    assert (decision.plan, decision.kind) == (plan, kind)
    assert decided(honouring, memory=acted(b"another")).kind is not Kind.REPLAY
    assert decided(faults, memory=acted()).kind is not Kind.REPLAY
