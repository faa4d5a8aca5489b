"""What a mail looks like, and what never becomes one."""

from __future__ import annotations

import email
from email.policy import default
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.samples import notification

from ringonce.channels.email import Mail, Mails, ServerAddress
from ringonce.channels.port import BadTarget, Unsendable
from ringonce.channels.registry import CATALOGUE
from ringonce.channels.templates import Templates
from ringonce.domain.notification import Channel, Instant

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

ROW = CATALOGUE["email"]
PACKAGED = Templates("", "notification")
ONE_CLICK = "https://example.org/u?n={id}&u={user}"


def mails(templates: Templates = PACKAGED, unsubscribe: str = "", sender: str = "Ring <ring@example.org>") -> Mails:
    """A channel's."""
    made = Mails(ROW, sender, templates, unsubscribe)
    assert (templates.faults, made.faults) == ([], [])
    return made


def mail(by: Mails | None = None, key: str = "root-1", **fields: Any) -> Mail:
    """The mail for a notification."""
    fields = {"target": "to@example.com", **fields}
    return (by or mails()).mail(notification(channel=Channel.EMAIL, **fields), key, 1_700_000_000.0)


def parsed(one: Mail) -> EmailMessage:
    """As its receiver reads it."""
    found: Any = email.message_from_bytes(one.content, policy=default)
    assert found.defects == []
    return found  # type: ignore[no-any-return]


def text_of(part: Any) -> str:
    """A part's text, with line ends as they were."""
    return str(part.get_content()).replace("\r\n", "\n")


def folder(path: Path, **files: str) -> Templates:
    """Templates of our own, named t."""
    for ending, text in files.items():
        (path / f"t.{ending}").write_text(text)
    return Templates(str(path), "t")


def test_a_mail_with_everything() -> None:
    """Plain text and HTML, from whom and to whom, and how to get no more of these."""
    one = mail(mails(unsubscribe=ONE_CLICK), title="Grüße 😀", body="Line\nLine <b>", created_at=Instant(1_600_000_000))
    assert (one.sender, one.recipient) == ("ring@example.org", "to@example.com")
    message = parsed(one)
    assert (message["from"], message["to"], message["subject"]) == (
        "Ring <ring@example.org>",
        "to@example.com",
        "Grüße 😀",
    )
    assert message["date"] == "Sun, 13 Sep 2020 12:26:40 +0000"
    assert message["auto-submitted"] == "auto-generated"
    assert message["list-unsubscribe"] == "<https://example.org/u?n=n-1&u=user-1>"
    assert message["list-unsubscribe-post"] == "List-Unsubscribe=One-Click"
    plain, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None
    assert html is not None
    assert text_of(plain).startswith("Line\nLine <b>\n")
    assert "https://example.org/u?n=n-1&u=user-1" in plain.get_content()
    assert "Line &lt;b&gt;" in html.get_content()
    assert one.content.isascii()
    assert max(map(len, one.content.splitlines())) <= 998


def test_the_message_id_is_the_roots() -> None:
    """The same however often it is made, another for another root."""
    ids = [parsed(mail(key=key))["message-id"] for key in ("a", "a", "b", "<x@y>\t")]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert all(found.startswith("<") and found.endswith("@example.org>") for found in ids)


def test_without_an_unsubscribe_there_is_none() -> None:
    """And a mailto has no one-click."""
    assert parsed(mail())["list-unsubscribe"] is None
    message = parsed(mail(mails(unsubscribe="mailto:off@example.org?subject={id}")))
    assert message["list-unsubscribe"] == "<mailto:off@example.org?subject=n-1>"
    assert message["list-unsubscribe-post"] is None


def test_a_date_is_the_clocks_where_the_notification_has_none() -> None:
    assert parsed(mail())["date"] == "Tue, 14 Nov 2023 22:13:20 +0000"


@pytest.mark.parametrize(
    "target",
    [
        "",
        "nobody",
        "a@",
        "@b",
        "a@b@c",
        "a b@c",
        "a@b\r\nBcc: x@y",
        "a@b\n",
        "a@-b",
        "a@b..c",
        ".a@b",
        "a..b@c",
        "ä@b",
        "a@ä",
        '"a b"@c',
        "a@[127.0.0.1]",
        "x" * 65 + "@b",
        "a@" + "b" * 260,
        "<a@b>",
        "a@b,c@d",
    ],
)
def test_a_target_that_is_no_address_is_refused(target: str) -> None:
    """Without repeating it."""
    with pytest.raises(BadTarget, match=r"^the target is no mail address$"):
        mails().destination(notification(target=target))


@pytest.mark.parametrize("target", ["a@b", "a.b+c@example.org", "o'neil@xn--nxasmq6b.example", "x_y-z@a-b.c"])
def test_an_address_is_one(target: str) -> None:
    assert mails().destination(notification(target=target)) == "email"
    assert parsed(mail(target=target))["to"] == target


@given(title=st.text(max_size=300), body=st.text(max_size=200), user=st.text(max_size=100))
def test_nothing_in_a_notification_becomes_a_header(title: str, body: str, user: str) -> None:
    """Whatever is in it: the headers are those that we set, each once."""
    one = mail(mails(unsubscribe=ONE_CLICK), title=title, body=body, user_id=user.encode("utf-8", "ignore").decode())
    names = [name.lower() for name in parsed(one)]
    assert sorted(names) == sorted(
        {
            *("message-id", "list-unsubscribe", "list-unsubscribe-post", "from", "to", "subject", "date"),
            *("auto-submitted", "mime-version", "content-type"),
        }
    )


@pytest.mark.parametrize("title", ["a\r\nBcc: x@y", "a\nb", "a\0b", "a\x85b", "a\u2028b", "a\r\n\r\nbody"])
def test_a_subject_is_one_line(title: str) -> None:
    """With a blank where it would have ended."""
    message = parsed(mail(title=title))
    assert message["bcc"] is None
    assert message["subject"].startswith("a ")


@pytest.mark.parametrize("sender", ["", "nobody", "a@b\r\nBcc: x@y", "A <a@>", "ä@b"])
def test_a_sender_that_is_none_is_a_fault(sender: str) -> None:
    assert [setting for setting, _ in Mails(ROW, sender, PACKAGED).faults] == ["FROM_ADDRESS"]


@pytest.mark.parametrize("url", ["http://x", "nowhere", "https://a b", "https://x>y", "mailto:a\r\nb", "javascript:1"])
def test_an_unsubscribe_that_is_none_is_a_fault(url: str) -> None:
    assert [setting for setting, _ in Mails(ROW, "a@b", PACKAGED, url).faults] == ["UNSUBSCRIBE"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("smtp://mail", ("mail", 587, False)),
        ("smtps://mail", ("mail", 465, True)),
        ("smtp://127.0.0.1:2525", ("127.0.0.1", 2525, False)),
        ("smtps://[::1]:1/", ("::1", 1, True)),
    ],
)
def test_a_server_address(url: str, address: tuple[str, int, bool]) -> None:
    assert ServerAddress.parse(url) == address


@pytest.mark.parametrize("url", ["mail:25", "http://mail", "smtp://", "smtp://u:p@mail", "smtp://mail:x", "smtp://m/x"])
def test_a_server_address_that_is_none(url: str) -> None:
    with pytest.raises(BadTarget):
        ServerAddress.parse(url)


# Templates


def test_a_template_has_title_body_payload_and_unsubscribe(tmp_path: Path) -> None:
    """HTML is escaped, plain text is not; without an HTML template there is none."""
    templates = folder(tmp_path, txt="{{ title }}|{{ body }}|{{ payload.name }}|{{ unsubscribe }}")
    one = parsed(mail(mails(templates), title="T", body="<b>", payload_json='{"name": "Ada <3"}'))
    assert text_of(one) == "T|<b>|Ada <3|\n"
    templates = folder(tmp_path, html="<p>{{ payload.name }}</p>")
    html = parsed(mail(mails(templates), payload_json='{"name": "<i>"}')).get_body(("html",))
    assert html is not None
    assert text_of(html) == "<p>&lt;i&gt;</p>\n"


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({}, "there is no template t.txt"),
        ({"html": "x"}, "there is no template t.txt"),
        ({"txt": "{{ name }}"}, "t.txt speaks of 'name'"),
        ({"txt": "x", "html": "{% for a in b %}{% endfor %}"}, "t.html speaks of 'b'"),
        ({"txt": "x\n{{ title"}, "t.txt, line 2"),
        ({"txt": "{% include 'other.txt' %}"}, "there is no template other.txt"),
        ({"txt": "{% include title %}"}, "t.txt includes a template whose name is not"),
        ({"txt": "{% include 't.html' %}", "html": "{{ name }}"}, "t.html speaks of 'name'"),
    ],
    ids=str,
)
def test_a_bad_template_is_a_fault_at_start(tmp_path: Path, files: dict[str, str], fault: str) -> None:
    """Missing, unreadable, or speaking of what there is not."""
    found = folder(tmp_path, **files).faults
    assert len(set(found)) == 1
    assert found[0].startswith(fault)


def test_a_folder_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    assert Templates(str(tmp_path / "no"), "t").faults == [f"there is no folder '{tmp_path / 'no'}'"]


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("{{ payload.name }}", "{}"),
        ("{{ payload.name.first }}", '{"name": {}}'),
        ("{{ 1 / payload.n }}", '{"n": 0}'),
        ("{{ payload.n + 'x' }}", '{"n": 1}'),
        ("{{ payload.n.__class__.__mro__ }}", '{"n": 1}'),
        ("{{ payload.update({'a': 1}) }}", '{"n": 1}'),
    ],
    ids=str,
)
def test_a_payload_that_does_not_go_with_the_template_is_never_sent(tmp_path: Path, text: str, payload: str) -> None:
    """Nor does a template get out of its sandbox."""
    with pytest.raises(Unsendable, match=r"^the template "):
        mail(mails(folder(tmp_path, txt=text)), payload_json=payload)
