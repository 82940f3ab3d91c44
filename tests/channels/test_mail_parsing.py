"""Parsing of mails: the sender, the card, and the line with the answer."""

from __future__ import annotations

from email import policy
from email.message import EmailMessage

import pytest
from hypothesis import given, strategies as st

from midturn.channels.mail_parsing import HTML_ONLY, Mail, first_line, read_mail, subject_tag

OURS = "mx.bot.test"
TOKEN = "abcdefghij_-0123456789"
PASSED = f"{OURS}; dkim=pass header.d=ana.test header.s=sel; spf=pass smtp.mailfrom=ana@ana.test"


def mail(
    text: str = "yes\n",
    results: tuple[str, ...] = (PASSED,),
    subject: str = f"Re: Deploy? {subject_tag(TOKEN)}",
    **headers: str,
) -> EmailMessage:
    """Return a reply."""
    message = EmailMessage()
    for result in results:
        message["Authentication-Results"] = result
    message["From"] = headers.pop("From", "Ana <ana@ana.test>")
    message["Subject"] = subject
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


def read(message: EmailMessage | bytes) -> Mail:
    """Parse a mail that our own server received."""
    return read_mail(message if isinstance(message, bytes) else message.as_bytes(), OURS)


def test_reply_has_sender_token_answer_and_authentication() -> None:
    expected = Mail(
        sender="ana@ana.test",
        token=TOKEN,
        text="yes",
        is_authenticated=True,
        subject=f"Re: Deploy? {subject_tag(TOKEN)}",
    )
    assert read(mail("yes\n\nOn Monday, midturn wrote:\n> Deploy?\n")) == expected


@pytest.mark.parametrize(
    "results",
    [
        (),
        ("elsewhere.test; dkim=pass header.d=ana.test",),
        (f"{OURS}; dkim=fail header.d=ana.test", PASSED),
        (f"{OURS}; none", PASSED),
        (f"{OURS}; dkim=pass header.d=evil.test",),
        (f"{OURS}; dkim=pass header.d=ana.test.evil.test",),
        (f"{OURS}; dkim=pass header.i=@sub.ana.test",),
        (f"{OURS}; dkim=fail (dkim=pass header.d=ana.test)",),
        (f"{OURS}; dkim=fail (a (b) ; dkim=pass header.d=ana.test)",),
        (f'{OURS}; dkim=fail reason="; dkim=pass header.d=ana.test"',),
        (f"{OURS}; spf=pass smtp.mailfrom=ana@ana.test; x-dkim=pass header.d=ana.test",),
        (f"{OURS}; dmarc=pass header.from=evil.test",),
        (f"{OURS}; dmarc=fail header.from=ana.test; dkim=permerror header.d=ana.test",),
        (f"{OURS}.evil.test; dkim=pass header.d=ana.test",),
        (f"evil.test {OURS}; dkim=pass header.d=ana.test",),
        (f"{OURS}; dkim=pass header.d=evil.test header.i=x header.d=ana.test @evil.test",),
        (f"{OURS}; dkim=pass header.i=x header.d=ana.test @evil.test",),
        (f"{OURS}; dkim=pass header.d=ana.test header.i=x",),
        (f"{OURS}; dkim=pass header.d=ana.test header.i=@evil.test",),
        (f"{OURS}; dkim=pass header.i=x@ana.test header.y=@evil.test",),
        (f"{OURS}; dmarc=pass header.from=evil.test header.from=ana.test",),
        (f"{OURS}; dmarc=pass header.from=ana.test header.from=ana.test",),
        (f"{OURS}; dkim=pass header.d=ana.test and more words",),
        (f"{OURS}; dkim=pass header.d=ana.test; spf pass",),
        (f"{OURS}; dkim=pass header.d=ana.test; spf=pass smtp.mailfrom=a smtp.mailfrom=b",),
        (f"{OURS}; spf=pass smtp.mailfrom=a;dkim=pass header.d=ana.test x@evil.test",),
        (f"{OURS}; dkim=pass header.d=ana.test; ; dkim=pass header.d=ana.test",),
        (f"{OURS}; dkim=pass evil.d=ana.test header.d=ana.test",),
        (f"{OURS}; dkim=passed header.d=ana.test",),
        (f"{OURS}; dkim=pass-not header.d=ana.test",),
    ],
)
def test_only_the_last_result_of_our_own_server_authenticates(results: tuple[str, ...]) -> None:
    assert read(mail(results=results)).is_authenticated is False


@pytest.mark.parametrize(
    "results",
    [
        (f"{OURS} 1; dmarc=pass (p=REJECT sp=NONE dis=NONE) header.from=ana.test",),
        (f"{OURS};\r\n dkim=pass (2048-bit key; secure) header.i=@ana.test header.b=Abc",),
        (f"{OURS}; dkim=fail header.d=list.test; dkim=pass header.d=ANA.test",),
        (f"{OURS}; dkim=pass header.d=ana.test;",),
        (
            (
                f"{OURS}; dkim=pass (2048-bit key; unprotected) header.d=ana.test"
                ' header.i=@mail.ana.test header.b="a+/="'
            ),
        ),
        (
            (
                f"{OURS}; spf=pass (sender IP is 192.0.2.1) smtp.mailfrom=ana.test; dkim=pass"
                " (signature was verified) header.d=ana.test; dmarc=pass action=none"
                " header.from=ana.test;compauth=pass reason=100"
            ),
        ),
        (
            (
                f"{OURS}; dkim=pass header.i=@ana.test header.b=Xy+z/=; arc=pass (i=1); spf=pass"
                " smtp.mailfrom=ana@ana.test; dmarc=pass (p=NONE sp=NONE dis=NONE)"
                " header.from=ana.test"
            ),
        ),
        ("inner.test; none", PASSED),
        (PASSED, f"{OURS}; dkim=fail header.d=ana.test"),
    ],
)
def test_pass_result_of_our_own_server_counts(results: tuple[str, ...]) -> None:
    found = read(
        "".join(f"Authentication-Results: {result}\r\n" for result in results).encode()
        + mail(results=()).as_bytes()
    )
    assert found.is_authenticated


@pytest.mark.parametrize(
    "senders",
    [
        (),
        ("ana@ana.test", "bo@bo.test"),
        ("ana@ana.test, bo@bo.test",),
        ("<=?utf-8?q?ana=40ana=2Etest?=>",),
        ("ana@ana.test\u0000@evil.test",),
        ("Ana",),
    ],
)
def test_a_mail_has_one_sender_or_none(senders: tuple[str, ...]) -> None:
    content = (
        "".join(f"From: {sender}\r\n" for sender in senders).encode() + b"Subject: x\r\n\r\nyes\r\n"
    )
    assert read(content).sender == ""


def test_display_name_is_not_an_address() -> None:
    found = read(mail(From='"ana@ana.test" <mallory@evil.test>'))
    assert (found.sender, found.is_authenticated) == ("mallory@evil.test", False)


@pytest.mark.parametrize(
    ("subject", "token"),
    [
        (f"AW: RE: Deploy? {subject_tag(TOKEN)}", TOKEN),
        (f"Fwd: {subject_tag(TOKEN)} {subject_tag(TOKEN)}", TOKEN),
        (f"{subject_tag(TOKEN)} {subject_tag('b' * 22)}", ""),
        ("Deploy?", ""),
        (subject_tag("short"), ""),
        (f"Größe: 1 € {subject_tag(TOKEN)}", TOKEN),
    ],
)
def test_subject_has_exactly_one_token(subject: str, token: str) -> None:
    assert read(mail(subject=subject)).token == token


def test_quoted_token_is_ignored() -> None:
    assert read(mail(f"yes\n\n> Subject: {subject_tag(TOKEN)}\n", subject="Re: hello")).token == ""


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto_Submitted": "auto-replied"},
        {"Auto_Submitted": "auto-generated (vacation)"},
        {"Precedence": "bulk"},
        {"List_Id": "<all.ana.test>"},
        {"Return_Path": "<>"},
        {"Precedence": "Auto_Reply"},
        {"X_Autoreply": "yes"},
        {"X_Auto_Reply": "1"},
        {"X_Autorespond": ""},
        {"X_AutoResponder": "x"},
        {"X_Auto_Response_Suppress": "All"},
        {"X_Autogenerated": "Reply"},
        {"X_Vacation": "yes"},
        {"X_Failed_Recipients": "bo@bo.test"},
        {"List_Post": "<mailto:all@ana.test>"},
        {"Delivered_To": "Autoresponder"},
    ],
)
def test_automatic_mails_are_not_answers(headers: dict[str, str]) -> None:
    assert read(mail("yes\n", (PASSED,), "x", **headers)).ignored_because


def test_any_auto_header_marks_an_automatic_mail() -> None:
    for name, values in (
        ("Auto-Submitted", ("no", "auto-replied")),
        ("Precedence", ("normal", "bulk")),
    ):
        content = "".join(f"{name}: {value}\r\n" for value in values).encode() + mail().as_bytes()
        assert read(content).ignored_because


def test_second_subject_header_invalidates_the_token() -> None:
    assert read(f"Subject: {subject_tag('b' * 22)}\r\n".encode() + mail().as_bytes()).token == ""


def test_mails_of_people_may_be_answers() -> None:
    assert read(mail(Auto_Submitted="no", Return_Path="<ana@ana.test>")).ignored_because == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("yes", "yes"),
        (
            "\r\n\r\n  no, because it is Friday\r\n\r\nBest\r\n-- \r\nAna",
            "no, because it is Friday",
        ),
        ("> Deploy?\n\nyes", ""),
        ("On Mon, 23 Nov 2026 at 13:00, midturn\n<bot@bot.test> wrote:\n\n> yes\n", ""),
        ("Am 23.11.26 um 13:00 schrieb midturn:\n> yes\n", ""),
        ("-----Original Message-----\nFrom: bot@bot.test\n\nyes", ""),
        ("________________________________\nFrom: midturn\n", ""),
        ("From: midturn <bot@bot.test>\nyes", ""),
        ("-- \nyes", ""),
        (
            "a line that flows \non to the next \nand ends\nhere",
            "a line that flows on to the next and ends",
        ),
        ("see this:\nyes", "see this:"),
        ("no\n\nOn Mon, 23 Nov 2026, midturn wrote:\n\n> yes", "no"),
        ("no\nOn Mon, 23 Nov 2026, midturn wrote:\n> yes", "no"),
        ("", ""),
    ],
)
def test_first_line_above_the_quote_is_the_answer(text: str, line: str) -> None:
    assert first_line(text) == line


@pytest.mark.parametrize(
    "html",
    [
        "<p>yes</p>",
        "<div style='display:none'>yes</div><p>no</p>",
        "<span style='font-size:0'>yes</span><br>no",
        "<p hidden>yes</p>no",
        "<!-- yes --><p>no</p>",
        "<table><tr><td>no</td></tr></table>yes",
    ],
)
@pytest.mark.parametrize("has_empty_plain_part", [False, True])
def test_html_only_mail_is_refused_with_a_reason(html: str, *, has_empty_plain_part: bool) -> None:
    message = mail(" \n")
    if has_empty_plain_part:
        message.add_alternative(html, subtype="html")
    else:
        message.set_content(html, subtype="html")
    found = read(message)
    assert (found.text, found.problem) == ("", HTML_ONLY)


def test_all_plain_parts_are_read() -> None:
    message = mail("yes\n")
    message.add_attachment("but not on Friday\n", disposition="inline")
    assert (read(message).text, read(message).more) == ("yes", "but not on Friday")


def test_plain_part_is_preferred_and_attachments_are_ignored() -> None:
    message = mail("ja, größer — 👍\n", subject=subject_tag(TOKEN))
    message.add_alternative("<p>no</p>", subtype="html")
    assert read(message).text == "ja, größer — 👍"
    picture = EmailMessage()
    picture["From"] = "ana@ana.test"
    picture.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="yes.png")
    picture.add_attachment("yes", filename="yes.txt")
    assert read(picture).text == ""


def test_attached_mail_is_not_part_of_the_text() -> None:
    message = EmailMessage()
    message["From"] = "ana@ana.test"
    message.add_attachment(mail("yes"))
    assert read(message).text == ""


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
def test_every_encoding_is_read(encoding: str, charset: str) -> None:
    message = EmailMessage()
    message["From"] = "ana@ana.test"
    message.set_content("größer = schöner\n", charset=charset, cte=encoding)
    assert read(message.as_bytes(policy=policy.SMTP)).text == "größer = schöner"


def test_unknown_charset_keeps_all_lines() -> None:
    content = b"From: ana@ana.test\r\nContent-Type: text/plain; charset=klingon\r\n\r\nyes\r\n"
    assert read(content).text == "yes"


def test_very_long_line_is_not_truncated_to_an_answer() -> None:
    assert len(read(mail("x" * 200_000)).text) > 20_000


def test_deeply_nested_mails_are_not_answers() -> None:
    parts = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (depth, depth)
        for depth in range(3_000)
    )
    assert read(b"From: ana@ana.test\r\n" + parts).text == ""


BEGINNINGS = (
    "",
    "From: ",
    "Content-Type: multipart/mixed; boundary=",
    "Subject: =?",
    "Content-Type: text/html; charset=",
)


@given(st.binary(max_size=400), st.sampled_from(BEGINNINGS))
def test_arbitrary_input_is_parsed_and_never_authenticated(noise: bytes, beginning: str) -> None:
    found = read_mail(beginning.encode() + noise, OURS)
    assert not found.is_authenticated


@given(st.text(max_size=300))
def test_answer_line_is_a_line_of_the_text(text: str) -> None:
    line = first_line(text)
    assert "\n" not in line
    assert not line.startswith(">")


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("yes", ""),
        ("yes\n\nbut only after the backup has run\n", "but only after the backup has run"),
        ("yes\nif Bo agrees\n\nAna\n-- \nAna Lopez", "if Bo agrees\n\nAna"),
        ("yes\n\nSent from my iPhone\n\nOn Mon, 23 Nov 2026, midturn wrote:\n> Deploy?", ""),
        ("yes \nbut not now\n", ""),
        ("yes\n\nOn Mon, 23 Nov 2026, midturn wrote:\n> Deploy?\n\nbut not now", "but not now"),
        ("yes\n\nOn Mon, 23 Nov 2026 at 13:00, midturn\n<bot@bot.test> wrote:\n\n> Deploy?\n", ""),
        (
            "yes\n\nmy condition:\n\n-----Original Message-----\nFrom: bot@bot.test\n\nno",
            "my condition:",
        ),
        ("> Deploy?\n\nyes", ""),
        ("", ""),
    ],
)
def test_lines_between_answer_and_quote_are_read(text: str, more: str) -> None:
    assert read(mail(text)).more == more
