"""What the commands about dead letters take, and what they show of them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from tests.fakes.clock import EPOCH
from tests.fakes.letters import letter
from tests.fakes.samples import expiring, notification

from ringonce import configured
from ringonce.errors import RingonceError
from ringonce.runtime.replay import Progress
from ringonce.runtime.selection import Rules, Selection, Verdict
from ringonce.runtime.tally import Tally
from ringonce.tools import replay as module
from ringonce.tools.dlq import dlq
from ringonce.tools.letters import age, counts, moment, plain, portrait
from ringonce.tools.meter import Bar, Lines, done_of, meter
from ringonce.tools.moment import MomentType
from ringonce.tools.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from ringonce.runtime.order import Order

SERVERS = {"KAFKA_BOOTSTRAP": "127.0.0.1:1", "DATABASE_URL": "postgresql://127.0.0.1:1/none"}
SECRETS = ("CANARY-user", "CANARY-target", "CANARY-title", "CANARY-body", "CANARY-payload")
PRIVATE: Any = dict(zip(("user_id", "target", "title", "body", "payload_json"), SECRETS, strict=True))


@pytest.mark.parametrize(
    ("text", "seconds"), [("2h", 7200), ("30m", 1800), ("1.5d", 129_600), ("1w", 604_800), ("0s", 0)]
)
def test_an_age_is_so_long_ago(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: EPOCH)
    found = MomentType().convert(text, None, None)
    assert (found.typed, found.at) == (text, EPOCH - seconds)


@pytest.mark.parametrize(
    "text", ["2023-11-14T22:13:20", "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00", "2023-11-14 22:13:20"]
)
def test_a_time_without_an_offset_is_utc(text: str) -> None:
    assert MomentType().convert(text, None, None).at == EPOCH


@pytest.mark.parametrize("text", ["", "h", "soon", "-2h", "2x", "1e3h", "2023-13-01", "٢h"])
def test_what_is_no_moment(text: str) -> None:
    """Said with examples of what is."""
    with pytest.raises(click.BadParameter, match="neither an age such as 2h or 7d nor a time"):
        MomentType().convert(text, None, None)


def test_counts_are_a_table() -> None:
    """Columns stand below each other; what came from outside moves no cursor."""
    tally = Tally(EPOCH)
    for one in (letter(), letter(), letter(b"\xff", error_class="\x1b[31mRed", error_status="")):
        tally.add(one)
    assert counts(tally) == [
        "class        reason     status  <1h  <1d  <7d  older  total",
        "Refused      exhausted     503    2    0    0      0      2",
        "\\x1b[31mRed  exhausted       -    1    0    0      0      1",
    ]


def test_a_letter_is_shown_without_what_is_the_recipients() -> None:
    """Until it is asked for."""
    one = letter(expiring(60, **PRIVATE), replay=2, maybe_reached="true", error_message="no answer")
    masked = "\n".join(portrait(one, EPOCH + 7200, reveal=False))
    revealed = "\n".join(portrait(one, EPOCH + 7200, reveal=True))
    assert [secret for secret in SECRETS if secret in masked] == []
    assert [secret for secret in SECRETS if secret not in revealed] == []
    assert "user-1" not in masked
    assert "user-1" in revealed, "the record's key"
    for said in (
        "notification-firebase-dlq[0]@0",
        "  id               replay-2-n-1, replay 2 of n-1",
        "  idempotency key  n-1",
        "  died             2023-11-14T22:13:20+00:00 (2h ago)",
        "  error            no answer",
        "  status           503",
        "  maybe reached    yes: an attempt got no answer",
        "  title            *** (12 characters; --reveal shows them)",
        "  expires_at       2023-11-14T22:14:20Z (over)",
    ):
        assert said in masked.splitlines()


def test_what_cannot_be_decoded_is_shown_as_such() -> None:
    masked, revealed = ("\n".join(portrait(letter(b"\xff\x01"), EPOCH, reveal=reveal)) for reveal in (False, True))
    assert "  cannot be decoded: the value is not a notifications.v1.Notification" in masked
    assert "  2 bytes; --reveal shows them" in masked
    assert "  2 bytes: ff 01" in revealed
    assert "can never be delivered: the id" in "\n".join(portrait(letter(notification("")), EPOCH, reveal=False))


def test_times_for_a_person() -> None:
    """Whatever a header says."""
    assert [age(seconds) for seconds in (0, 59, 60, 7200, 172_800)] == ["0s", "59s", "1m", "2h", "2d"]
    assert moment(9e14) == "9e+14 s after the epoch"
    assert plain("a\x1b\nb\u202e") == "a\\x1b\\nb\\u202e"


class Ordered:
    """The commands, with what a replay is told in place of the replay."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders: list[tuple[str, Order]] = []
        self.progress = Progress({}, 2, finished=True)
        monkeypatch.setattr(module, "run_replay", self._run)
        monkeypatch.setattr(module, "run_sync", lambda role: role(None))

    def _run(self, _settings: object, row: Any, order: Order, _stop: object, _tell: object) -> Progress:
        self.orders.append((row.name, order))
        return self.progress

    def run(self, *arguments: str, answer: str = "") -> Any:
        """What the command said."""
        return CliRunner().invoke(replay, arguments, input=answer, env=SERVERS)


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> Ordered:
    return Ordered(monkeypatch)


def test_every_choice_reaches_the_replay(ordered: Ordered, tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    ids.write_text("a\n\n  b \n")
    done = ordered.run(
        *("--channel", "apns", "--since", "2023-11-14T22:13:20", "--error-class", "Refused", "--reason", "exhausted"),
        *("--status", "503", "--status", "500", "--event-key", "e", "--user", "u", "--ids-file", str(ids)),
        *("--include-maybe-reached", "--max-replays", "5", "--to", "retry-30s", "--limit", "9", "--rate", "2.5"),
        *("--name", "night"),
    )
    assert (done.exit_code, done.output) == (0, "replayed 2, skipped 0\n")
    [(channel, order)] = ordered.orders
    assert channel == "apns"
    assert order.selection == Selection(
        since=EPOCH,
        error_classes=frozenset({"refused"}),
        reasons=frozenset({"exhausted"}),
        statuses=frozenset({500, 503}),
        event_keys=frozenset({"e"}),
        users=frozenset({"u"}),
        ids=frozenset({"a", "b"}),
    )
    assert order.rules == Rules(5, include_maybe_reached=True)
    assert (order.to, order.limit, order.rate, order.name) == ("retry-30s", 9, 2.5, "night")
    assert order.typed == {"since": "2023-11-14T22:13:20"}


def test_a_fresh_key_is_asked_about(ordered: Ordered) -> None:
    """No means that nothing is sent."""
    assert ordered.run("--channel", "apns", "--fresh-key", answer="n\n").exit_code == 1
    assert ordered.orders == []
    assert ordered.run("--channel", "apns", "--fresh-key", answer="y\n").exit_code == 0
    assert ordered.run("--channel", "apns", "--fresh-key", "--yes").exit_code == 0
    assert [order.rules.fresh_key for _, order in ordered.orders] == [True, True]


def test_the_channel_that_is_put_into_the_routers_letters_is_where_they_go(ordered: Ordered) -> None:
    assert ordered.run("--router", "--fix-channel", "webhook").exit_code == 0
    [(channel, order)] = ordered.orders
    assert (channel, order.rules.fix) == ("webhook", configured.channel_row("webhook").channel)


def test_what_was_skipped_is_said_with_its_reason(ordered: Ordered) -> None:
    ordered.progress.verdicts.update({Verdict.EXPIRED: 2, Verdict.GUARD: 1, Verdict.OTHER: 7})
    assert (
        ordered.run("--channel", "apns").output == "replayed 2, skipped 3: 1 at the guard (--max-replays), 2 expired\n"
    )


def test_nothing_to_replay_is_said(ordered: Ordered) -> None:
    ordered.progress = Progress({}, finished=True)
    assert ordered.run("--channel", "apns").output == "nothing to replay in the DLQ of apns since the last replay\n"
    assert ordered.run("--channel", "apns", "--user", "u").output == "nothing to replay in the DLQ of apns\n"


def test_a_finished_one_says_so(ordered: Ordered) -> None:
    ordered.progress.before = True
    done = ordered.run("--channel", "apns", "--name", "night")
    assert done.output == "'night' has finished already: replayed 2, skipped 0\n"


@pytest.mark.parametrize(
    ("choice", "how"),
    [
        ((), "the same command goes on from there"),
        (("--name", "x"), "the same command goes on from there"),
        (("--user", "u"), "the same command begins again and skips what has been delivered"),
    ],
)
def test_an_interrupted_one_says_how_far_it_got_and_how_to_go_on(
    ordered: Ordered, choice: tuple[str, ...], how: str
) -> None:
    ordered.progress = Progress({}, 2, total=10, seen=3)
    done = ordered.run("--channel", "apns", *choice)
    assert isinstance(done.exception, RingonceError)
    assert done.exception.exit_code == 5
    assert str(done.exception) == f"interrupted after 3 of 10: replayed 2, skipped 0; {how}"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((), "say whose DLQ: either --channel, or --router with --fix-channel"),
        (("--channel", "apns", "--router"), "say whose DLQ: either --channel, or --router with --fix-channel"),
        (("--router",), "--router needs --fix-channel: only what came without a channel can be repaired"),
        (("--channel", "apns", "--fix-channel", "apns"), "--fix-channel is for --router"),
        (("--channel", "pigeon"), "there is no channel 'pigeon'; there are apns, email, firebase, ntfy, webhook"),
        (("--channel", "apns", "--ids-file", "/nowhere/ids"), "--ids-file /nowhere/ids: No such file or directory"),
        (("--channel", "apns", "--ids-file", "/dev/null"), "--ids-file /dev/null: there is no id in it"),
        (("--channel", "apns", "--name", "a b"), "--name 'a b' is not 1 to 100 letters"),
    ],
)
def test_a_wrong_choice_is_one_fault_and_exit_3(ordered: Ordered, arguments: tuple[str, ...], fault: str) -> None:
    """Before any server is asked."""
    done = ordered.run(*arguments)
    assert isinstance(done.exception, RingonceError)
    assert done.exception.exit_code == 3
    assert str(done.exception).splitlines()[1].startswith(f"  - {fault}")
    assert ordered.orders == []


@pytest.mark.parametrize("flags", [("--since", "soon"), ("--status", "99"), ("--limit", "0"), ("--rate", "0")])
def test_a_value_that_an_option_does_not_take_is_exit_2(ordered: Ordered, flags: tuple[str, ...]) -> None:
    done = ordered.run("--channel", "apns", *flags)
    assert done.exit_code == 2
    assert done.output.splitlines()[-1].startswith(f"Error: Invalid value for '{flags[0]}'")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("ls",), "say whose DLQ: either --channel or --router"),
        (("show", "n-1"), "say whose DLQ: either --channel or --router"),
        (("show", "pigeon:0:1"), "there is no channel 'pigeon'"),
    ],
)
def test_whose_letters_has_to_be_said(arguments: tuple[str, ...], fault: str) -> None:
    done = CliRunner().invoke(dlq, arguments, env=SERVERS)
    assert isinstance(done.exception, RingonceError)
    assert fault in str(done.exception)


def test_a_bar_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fills with what was looked at; without rich there are lines there too."""
    assert isinstance(meter(None), Lines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = meter(None)
    assert isinstance(shown, Bar)
    with shown:
        shown(Progress({}, 40, total=100))
        shown(Progress({}, 45, total=100, seen=50))
        [task] = shown._bar.tasks
        assert (task.completed, task.total, task.fields["rate"].isdigit()) == (50, 100, True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(meter(None), Lines)


def test_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """None for what takes no time; with a limit it is the limit that is approached."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress({}, total=100)
    with Lines(None) as shown:
        shown(progress)
        now[0] += 4
        shown(progress)
        assert capsys.readouterr().err == ""
        now[0] += 6
        progress.published, progress.seen = 40, 50
        shown(progress)
        shown(progress)
    assert capsys.readouterr().err == "50 of 100: replayed 40, 4/s, 10 s left\n"
    assert done_of(progress, 60) == (40, 60)
    assert done_of(progress, 200) == (50, 100)
