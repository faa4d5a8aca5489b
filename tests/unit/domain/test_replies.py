"""What a mail server's reply shows."""

from __future__ import annotations

import pytest

from ringonce.domain.outcome import Gone, NotSent, Outcome, Refused, Rejected
from ringonce.domain.replies import Step, classify_reply

TABLE = [
    (Step.CONNECTION, 554, "no service", NotSent("the mail server does not serve us: 554")),
    (Step.CONNECTION, 421, "too many", NotSent("the mail server does not serve us: 421")),
    (Step.CONNECTION, 535, "5.7.8 bad password", NotSent("the mail server does not serve us: 535 5.7.8")),
    (Step.SENDER, 530, "log in first", NotSent("the mail server does not serve us: 530")),
    (Step.SENDER, 451, "later", Refused(451)),
    (Step.SENDER, 550, "not from you", Rejected("rejected with reply 550", 550)),
    (Step.RECIPIENT, 450, "4.2.1 greylisted", Refused(450)),
    (Step.RECIPIENT, 550, "No such user here", Gone(550)),
    (Step.RECIPIENT, 550, "5.1.1 unknown", Gone(550)),
    (Step.RECIPIENT, 553, "5.1.2 no such domain", Gone(553)),
    (Step.RECIPIENT, 550, "5.7.1 you are on a list", Rejected("rejected with reply 550 5.7.1", 550)),
    (Step.RECIPIENT, 552, "5.2.2 full", Rejected("rejected with reply 552 5.2.2", 552)),
    (Step.RECIPIENT, 553, "not like this", Rejected("rejected with reply 553", 553)),
    (Step.CONTENT, 452, "no room", Refused(452)),
    (Step.CONTENT, 550, "spam", Rejected("rejected with reply 550", 550)),
    (Step.CONTENT, 554, "5.6.0 malformed", Rejected("rejected with reply 554 5.6.0", 554)),
]


@pytest.mark.parametrize(("step", "code", "text", "outcome"), TABLE)
def test_what_a_reply_means(step: Step, code: int, text: str, outcome: Outcome) -> None:
    """4xx try again, 5xx never, no such mailbox is gone; what is about us is no message's fault. No text is kept."""
    assert classify_reply(step, code, text) == outcome
