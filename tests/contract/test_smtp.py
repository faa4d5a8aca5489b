"""Mail submission against a real SMTP server in this process: scripted replies, TLS, connections that are cut."""

from __future__ import annotations

import asyncio
import email
import ssl
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from email.policy import default
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
import trustme
from aiosmtpd import smtp
from aiosmtpd.smtp import AuthResult
from tests.fakes.samples import notification
from tests.fixtures.waiting import eventually

from ringonce.channels.email import Mails, ServerAddress, trusted
from ringonce.channels.registry import CATALOGUE
from ringonce.channels.smtp import SmtpCarrier
from ringonce.channels.templates import Templates
from ringonce.domain.notification import Channel
from ringonce.domain.outcome import Delivered, Gone, Indeterminate, NotSent, Outcome, Refused, Rejected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIMIT = 5.0
USER, WORD = "ringonce", "a word"


@dataclass
class Desk:
    """aiosmtpd's handler: says what the script says at each step, and keeps what it took."""

    rcpt: list[str] = field(default_factory=list)
    mail: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    taken: list[Any] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)
    logins: list[bytes] = field(default_factory=list)

    def _next(self, server: Any, script: list[str]) -> str | None:
        said = script.pop(0) if script else None
        if said == "cut":
            server.transport.abort()
            return "250 never read"
        return said

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """The sender."""
        self.peers.append(session.peer)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self._next(server, self.mail) or "250 OK"

    async def handle_RCPT(self, server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        """The recipient."""
        said = self._next(server, self.rcpt)
        if said is None or said.startswith("250"):
            envelope.rcpt_tos.append(address)
        return said or "250 OK"

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        """The content: it is taken, unless the script says no."""
        said = self.data.pop(0) if self.data else "250 OK"
        if said == "silence":
            self.taken.append(envelope)
            await asyncio.sleep(LIMIT)
            return "250 late"
        if said == "cut":
            self.taken.append(envelope)
            server.transport.abort()
        if said.startswith("250"):
            self.taken.append(envelope)
        return "250 never read" if said == "cut" else said

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        """One user."""
        self.logins.append(data.login)
        return AuthResult(success=(data.login, data.password) == (USER.encode(), WORD.encode()))


@asynccontextmanager
async def serving(desk: Desk, tls: ssl.SSLContext | None = None, **settings: Any) -> AsyncIterator[int]:
    """A server; the port it listens on. With `tls` it speaks that from the first byte."""
    loop = asyncio.get_running_loop()
    connections: list[smtp.SMTP] = []

    def connection() -> smtp.SMTP:
        connections.append(smtp.SMTP(desk, hostname="mail.example", loop=loop, **settings))
        return connections[-1]

    server = await loop.create_server(connection, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for one in connections:
            if one.transport is not None:
                cast("asyncio.Transport", one.transport).abort()
        await eventually(lambda: all(one.transport is None for one in connections))


@pytest.fixture
def desk() -> Desk:
    """What the server says."""
    return Desk()


@pytest.fixture
def authority() -> trustme.CA:
    """Whose certificates the TLS servers here have."""
    return trustme.CA()


def server_context(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    """A server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@pytest_asyncio.fixture
async def office(desk: Desk) -> AsyncIterator[int]:
    """The port of a server in the clear."""
    async with serving(desk) as port:
        yield port


def carrier(port: int, *, tls: bool = False, encrypted: bool = False, ca: str = "", login: bool = False) -> SmtpCarrier:
    """A carrier to a server on this machine."""
    mails = Mails(CATALOGUE["email"], "ring@example.org", Templates("", "notification"))
    user, word = (USER, WORD) if login else ("", "")
    server = ServerAddress("127.0.0.1", port, tls)
    return SmtpCarrier(mails, server, trusted(ca), user, word, lambda: 0.0, encrypted=encrypted)


async def send(by: SmtpCarrier, ident: str = "n-1", deadline: float = 2.0, **fields: Any) -> Outcome:
    """One call."""
    one = notification(ident, channel=Channel.EMAIL, target="to@example.com", **fields)
    assert by.destination(one) == "email"
    return await by.prepare(one, ident, None, b"")(deadline)


async def test_a_mail_arrives_as_it_was_made(office: int, desk: Desk) -> None:
    """Envelope and content."""
    by = carrier(office)
    assert await send(by, title="Grüße", body=".\r\n.dots\n.") == Delivered(250)
    await by.close()
    [envelope] = desk.taken
    assert (envelope.mail_from, envelope.rcpt_tos) == ("ring@example.org", ["to@example.com"])
    message: Any = email.message_from_bytes(envelope.content, policy=default)
    assert message["subject"] == "Grüße"
    assert message.get_body(("plain",)).get_content().splitlines()[:3] == [".", ".dots", "."]


async def test_a_connection_carries_many_mails(office: int, desk: Desk) -> None:
    """One after the other; as many at once as there are."""
    by = carrier(office)
    for number in range(5):
        assert await send(by, f"n-{number}") == Delivered(250)
    assert len(set(desk.peers)) == 1
    outcomes = await asyncio.gather(*(send(by, f"m-{number}") for number in range(4)))
    assert set(outcomes) == {Delivered(250)}
    assert len(set(desk.peers)) == 4
    await by.close()


async def test_a_connection_that_was_closed_meanwhile_is_replaced(desk: Desk) -> None:
    """Nothing was sent over it: the call does not fail for that."""
    by = carrier(0)
    async with serving(desk) as port:
        by._server = ServerAddress("127.0.0.1", port, tls=False)
        assert await send(by) == Delivered(250)
        desk.mail.append("421 4.4.2 idle for too long")
        assert await send(by, "n-2") == Delivered(250)
        desk.mail.append("cut")
        assert await send(by, "n-3") == Delivered(250)
        assert len(set(desk.peers)) == 3
    assert isinstance(await send(by, "n-4"), NotSent)
    await by.close()


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ({"mail": ["451 4.3.0 later"]}, Refused(451)),
        ({"mail": ["550 5.7.1 not from you"]}, Rejected("rejected with reply 550 5.7.1", 550)),
        ({"rcpt": ["450 4.2.1 greylisted"]}, Refused(450)),
        ({"rcpt": ["550 5.1.1 no such user"]}, Gone(550)),
        ({"rcpt": ["550 no such user"]}, Gone(550)),
        ({"rcpt": ["550 5.7.1 blocked"]}, Rejected("rejected with reply 550 5.7.1", 550)),
        ({"data": ["452 4.3.1 no room"]}, Refused(452)),
        ({"data": ["554 5.6.0 spam"]}, Rejected("rejected with reply 554 5.6.0", 554)),
        ({"rcpt": ["cut"]}, NotSent("the mail server hung up")),
        ({"data": ["cut"]}, Indeterminate("the mail server hung up")),
    ],
    ids=str,
)
async def test_what_the_server_says_is_the_outcome(
    office: int, desk: Desk, script: dict[str, list[str]], outcome: Outcome
) -> None:
    """And the next mail is none the worse for it."""
    for step, replies in script.items():
        getattr(desk, step).extend(replies)
    by = carrier(office)
    assert await send(by) == outcome
    assert await send(by, "n-2") == Delivered(250)
    assert len(desk.taken) == (2 if isinstance(outcome, Indeterminate) else 1)
    await by.close()


async def test_no_reply_after_the_content_is_no_answer(office: int, desk: Desk) -> None:
    """It may have been taken; the deadline is the whole call's."""
    desk.data.append("silence")
    by = carrier(office)
    assert await send(by, deadline=0.5) == Indeterminate("no reply in time")
    await by.close()


async def test_cancelling_leaves_nothing_behind(office: int, desk: Desk) -> None:
    """The connection is not used again."""
    desk.data.append("silence")
    by = carrier(office)
    call = asyncio.ensure_future(send(by))
    await eventually(lambda: desk.taken)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await send(by, "n-2") == Delivered(250)
    assert len(set(desk.peers)) == 2
    await by.close()


async def test_nobody_there_is_not_sent(unused_tcp_port: int) -> None:
    """As is a server that says nothing."""
    by = carrier(unused_tcp_port)
    assert isinstance(await send(by), NotSent)
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    mute = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    with closing(mute):
        by = carrier(mute.sockets[0].getsockname()[1])
        assert await send(by, deadline=0.3) == NotSent("no reply in time")
        await by.close()
        await ended.wait()


async def test_starttls_is_required_where_it_is_asked_for(
    office: int, desk: Desk, authority: trustme.CA, tmp_path: Path
) -> None:
    """A server that does not offer it gets nothing, not even a password."""
    by = carrier(office, encrypted=True, login=True)
    assert isinstance(await send(by), NotSent)
    assert (desk.taken, desk.logins) == ([], [])
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    settings: dict[str, Any] = {
        "tls_context": server_context(authority),
        "require_starttls": True,
        "auth_required": True,
    }
    async with serving(desk, **settings, authenticator=desk.authenticate) as port:
        by = carrier(port, encrypted=True, ca=str(tmp_path / "ca.pem"), login=True)
        assert await send(by) == Delivered(250)
        assert await send(by, "n-2") == Delivered(250)
        await by.close()
    assert desk.logins == [USER.encode()]


async def test_tls_from_the_first_byte(desk: Desk, authority: trustme.CA, tmp_path: Path) -> None:
    """With a certificate that is believed; one that is not, or another's, gets nothing."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    async with serving(desk, server_context(authority)) as port:
        by = carrier(port, tls=True, ca=str(tmp_path / "ca.pem"))
        assert await send(by) == Delivered(250)
        await by.close()
        for ca in ("", str(tmp_path / "other.pem")):
            assert isinstance(await send(carrier(port, tls=True, ca=ca)), NotSent)
    async with serving(desk, server_context(authority, "other.example")) as port:
        by = carrier(port, tls=True, ca=str(tmp_path / "ca.pem"))
        assert isinstance(await send(by), NotSent)
    assert len(desk.taken) == 1


async def test_credentials_that_are_not_taken_are_no_mails_fault(
    desk: Desk, authority: trustme.CA, tmp_path: Path
) -> None:
    """Nothing was sent, and nothing is rejected for it."""
    ca = str(tmp_path / "ca.pem")
    authority.cert_pem.write_to_path(ca)
    settings: dict[str, Any] = {"tls_context": server_context(authority), "auth_required": True}
    refuse = AuthResult(success=False, handled=False)
    async with serving(desk, **settings, authenticator=lambda *_: refuse) as port:
        outcome = await send(carrier(port, encrypted=True, ca=ca, login=True))
        assert outcome == NotSent("the mail server does not serve us: 535 5.7.8")
        outcome = await send(carrier(port, encrypted=True, ca=ca))
        assert outcome == NotSent("the mail server does not serve us: 530 5.7.0")
    assert desk.taken == []
