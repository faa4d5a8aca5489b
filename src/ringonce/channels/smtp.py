"""Mail submission: one connection carries many mails, one after the other (RFC 5321).

What may have been taken is Indeterminate: whatever fails from DATA on without a reply. What fails before it is NotSent.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

import aiosmtplib

from ringonce.domain.outcome import Delivered, Indeterminate, NotSent, Outcome
from ringonce.domain.replies import Step, classify_reply

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ringonce.channels.email import Mail, Mails, ServerAddress
    from ringonce.channels.port import Prepared
    from ringonce.domain.notification import Notification

IDLE: Final = 20.0
"""Seconds for which an unused connection is kept: below what servers do, who hang up after a minute or more."""

CLOSING: Final = 1.0
SERVICE_CLOSING: Final = 421


class _Progress:
    """How far a mail has come."""

    __slots__ = ("step",)

    def __init__(self) -> None:
        self.step = Step.CONNECTION


class SmtpCarrier:
    """Implements `Carrier`.

    Args:
        mails: makes what is sent.
        server: where to.
        tls: whose certificates are believed.
        username: for AUTH; empty for none.
        password: the user's.
        now: seconds since the epoch, for the date of mails whose notification has none.
        encrypted: whether a server that does not offer TLS is refused.
    """

    def __init__(
        self,
        mails: Mails,
        server: ServerAddress,
        tls: ssl.SSLContext,
        username: str,
        password: str,
        now: Callable[[], float],
        *,
        encrypted: bool,
    ) -> None:
        self.destination = mails.destination
        self._mails = mails
        self._server = server
        self._tls = tls
        self._credentials = (username or None, password or None)
        self._now = now
        self._encrypted = encrypted
        self._idle: deque[tuple[float, aiosmtplib.SMTP]] = deque()  # (since, connection), the latest used last
        self._closed = False

    def prepare(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Prepared:  # noqa: ARG002 - the port's signature; a mail carries neither
        """See `Carrier.prepare`."""
        return partial(self._send, self._mails.mail(notification, key, self._now()))

    async def _send(self, mail: Mail, deadline: float) -> Outcome:
        progress = _Progress()
        try:
            async with asyncio.timeout(deadline):
                await self._submit(mail, progress)
        except aiosmtplib.SMTPResponseException as reply:
            return classify_reply(progress.step, reply.code, reply.message)
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            detail = _detail(error)
            return Indeterminate(detail) if progress.step is Step.CONTENT else NotSent(detail)
        return Delivered(250)

    async def _submit(self, mail: Mail, progress: _Progress) -> None:
        connection = await self._begin(mail, progress)
        done = False
        try:
            progress.step = Step.RECIPIENT
            await connection.rcpt(mail.recipient)
            progress.step = Step.CONTENT
            await connection.data(mail.content)
            done = True
        finally:
            if done and not self._closed:
                self._idle.append((asyncio.get_running_loop().time(), connection))
            else:
                connection.close()

    async def _begin(self, mail: Mail, progress: _Progress) -> aiosmtplib.SMTP:
        """A connection on which the mail's transaction has begun."""
        used = self._take()
        if used is not None:
            try:
                await used.mail(mail.sender)
            except BaseException as error:
                used.close()
                if not _was_over(error):
                    progress.step = Step.SENDER
                    raise
            else:
                return used
        progress.step = Step.CONNECTION
        fresh = await self._connect()
        progress.step = Step.SENDER
        try:
            await fresh.mail(mail.sender)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _take(self) -> aiosmtplib.SMTP | None:
        """A connection that was used not long ago, if there is one."""
        horizon = asyncio.get_running_loop().time() - IDLE
        while self._idle and self._idle[0][0] < horizon:
            self._idle.popleft()[1].close()
        while self._idle:
            _, connection = self._idle.pop()
            if connection.is_connected:
                return connection
            connection.close()
        return None

    async def _connect(self) -> aiosmtplib.SMTP:
        username, password = self._credentials
        connection = aiosmtplib.SMTP(
            hostname=self._server.host,
            port=self._server.port,
            local_hostname=socket.gethostname(),  # the library would ask a name server for more
            use_tls=self._server.tls,
            start_tls=self._encrypted and not self._server.tls,
            tls_context=self._tls,
            username=username,
            password=password,
        )
        await connection.connect()
        return connection

    async def close(self) -> None:
        """See `Carrier.close`."""
        self._closed = True
        idle = [connection for _, connection in self._idle]
        self._idle.clear()
        await asyncio.gather(*(_quit(connection) for connection in idle))


def _was_over(error: BaseException) -> bool:
    """Whether a kept connection had ended by itself: then nothing was sent over it, and another one is tried."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return error.code == SERVICE_CLOSING
    return isinstance(error, ConnectionError)


async def _quit(connection: aiosmtplib.SMTP) -> None:
    try:
        await connection.quit(timeout=CLOSING)
    except (aiosmtplib.SMTPException, OSError):
        connection.close()


def _detail(error: Exception) -> str:
    """One line without address or content."""
    if isinstance(error, TimeoutError):
        return "no reply in time"
    cause = error.__cause__ or error
    if isinstance(cause, aiosmtplib.SMTPServerDisconnected | ConnectionResetError):
        return "the mail server hung up"
    return f"{type(cause).__name__} from the mail server's connection"
