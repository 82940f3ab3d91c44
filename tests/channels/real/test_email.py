"""E-mail with Dovecot and aiosmtpd: real mails, real signatures, IDLE."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from email.message import EmailMessage

import pytest

import midturn as mt
from midturn.channels.email import Email
from midturn.channels.mail_parsing import read_mail, subject_tag
from midturn.channels.port import Card, ChannelAway, ChannelRefused
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.errors import ConfigError
from midturn.stores.store import ConversationStore
from support.channels.dovecot import AUTHSERV, BOT, PASSWORD, MailServer, no_dovecot
from support.channels.questions import answered, answers, ask, pair, running
from support.clocks import PatchedTime

pytestmark = [
    pytest.mark.real("channels"),
    pytest.mark.skipif(bool(no_dovecot()), reason=no_dovecot()),
]
GO = mt.Question.boolean("go", "Deploy to production?")
ANA = "ana@ana.test"


@pytest.fixture(scope="module")
def shared() -> Iterator[MailServer]:
    """One mail server for all tests, since it takes a second to start."""
    house = MailServer()
    yield house
    house.remove()


@pytest.fixture
def house(shared: MailServer) -> MailServer:
    """The server with empty mailboxes."""
    shared.empty()
    return shared


def channel(house: MailServer, address: str = BOT) -> Email:
    """Return the channel under test."""
    where = {"smtp": f"smtp://127.0.0.1:{house.smtp}", "imap": f"imap://127.0.0.1:{house.imap}"}
    return Email(address, PASSWORD, **where, authserv_id=AUTHSERV)


def reply(card: EmailMessage, text: str = "yes", sender: str = f"Ana <{ANA}>") -> EmailMessage:
    """Return a reply as a mail program writes it."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, BOT, f"Re: {card['Subject']}"
    message["In-Reply-To"] = card["Message-ID"]
    quote = (
        "\n".join(f"> {line}" for line in card.get_content().splitlines())
        if not card.is_multipart()
        else "> …"
    )
    message.set_content(f"{text}\n\nOn Monday, 23 November, midturn wrote:\n{quote}\n")
    return message


def played(play: Callable[[], Awaitable[None]]) -> None:
    """Run a scene, with a limit of half a minute."""

    async def scene() -> None:
        async with asyncio.timeout(120):
            await play()

    asyncio.run(scene())


def test_the_first_line_of_a_signed_reply_is_the_answer(
    store: ConversationStore, house: MailServer
) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        question = await ask(store, GO)
        async with running(store, channel(house)):
            card = await house.mail(ANA)
            assert card["Auto-Submitted"] == "auto-generated"
            assert (
                card.get_content()
                .replace("\r\n", "\n")
                .startswith("deploy asks · shop\n\nDeploy to production?\n\nReply")
            )
            house.post(reply(card, "no, because it is Friday"), ANA, signed_by="ana.test")
            assert await answered(store, question) == (False, "it is Friday", "ana", "email")
            over = await house.mail(ANA, 2)
        assert (over["In-Reply-To"], over.get_content().startswith("Answered by ana (email).")) == (
            card["Message-ID"],
            True,
        )
        assert read_mail(over.as_bytes(), AUTHSERV).token == ""

    played(play)


def test_only_authenticated_mail_of_the_paired_person_answers(
    store: ConversationStore, house: MailServer
) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        await pair(store, "email", "bo", "bo@bo.test")
        question = await ask(
            store, mt.Question.boolean("go", "Deploy?", people=mt.People(ask=["ana"], only=True))
        )
        async with running(store, channel(house)):
            card = await house.mail(ANA)
            forged = (
                b"Authentication-Results: %s; dkim=pass header.d=ana.test\r\n" % AUTHSERV.encode()
            )
            house.post(reply(card), ANA)  # not signed by her domain
            house.post(forged + reply(card).as_bytes(), "m@evil.test")
            house.post(reply(card), "m@evil.test", signed_by="evil.test")
            house.post(
                house.sign(reply(card, "no").as_bytes(), "ana.test").replace(b"\nno\n", b"\nyes\n"),
                ANA,
            )  # changed after signing
            house.post(
                reply(card, sender="bo@bo.test"), "bo@bo.test", signed_by="bo.test"
            )  # a forwarded card
            house.post(
                reply(card, sender=f'"{ANA}" <m@evil.test>'), "m@evil.test", signed_by="evil.test"
            )
            away = reply(card)
            away["Auto-Submitted"] = "auto-replied"
            house.post(away, ANA, signed_by="ana.test")
            house.post(reply(card), "", signed_by="ana.test")  # a bounce
            stale = reply(card)
            stale.replace_header("Subject", f"Re: Deploy? {subject_tag('A' * 22)}")
            house.post(stale, ANA, signed_by="ana.test")
            quoted = reply(card)
            quoted.replace_header("Subject", "Re: Deploy?")
            house.post(quoted, ANA, signed_by="ana.test")
            house.post(reply(card, "x" * 1_000_000), ANA, signed_by="ana.test")
            notice = await house.mail(ANA, 2)
            assert "The limit is 20,000" in notice.get_content()
            assert await answers(store, question) == []
            house.post(reply(notice, "no"), ANA, signed_by="ana.test")
            assert await answered(store, question) == (False, None, "ana", "email")

    played(play)


def test_code_pairs_and_free_text_needs_confirmation(
    store: ConversationStore, house: MailServer
) -> None:
    async def play() -> None:
        question = await ask(store, mt.Question.text("why", "Warum?"))
        code = await ChannelState(store.port, now).create_code("ana", "email")
        async with running(store, channel(house)):
            hello = EmailMessage()
            hello["From"], hello["To"], hello["Subject"] = ANA, BOT, code
            house.post(hello, ANA)  # not signed: it pairs nobody, and the code stays valid
            house.post(hello, ANA, signed_by="ana.test")
            card = await house.mail(ANA)
            answer = reply(card)
            answer.set_content("<div>nein</div>", subtype="html", cte="quoted-printable")
            house.post(answer, ANA, signed_by="ana.test")
            refused = await house.mail(ANA, 2)
            assert "This mail has only HTML" in refused.get_content()
            answer = reply(refused)
            answer.set_content("Größer ist schöner\n", cte="quoted-printable")
            house.post(answer, ANA, signed_by="ana.test")
            shown = await house.mail(ANA, 3)
            assert "You wrote: Größer ist schöner. Send this answer?" in shown.get_content()
            assert await answers(store, question) == []
            house.post(reply(shown), ANA, signed_by="ana.test")
            assert await answered(store, question) == ("Größer ist schöner", None, "ana", "email")

    played(play)


def test_yes_followed_by_a_condition_decides_nothing(
    store: ConversationStore, house: MailServer
) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        question = await ask(store, GO)
        async with running(store, channel(house)):
            card = await house.mail(ANA)
            house.post(
                reply(card, "yes\n\nbut only after the backup has run\n\nSent from my iPhone"),
                ANA,
                signed_by="ana.test",
            )
            shown = await house.mail(ANA, 2)
            assert (
                "You wrote: “yes⏎ but only after the backup has run”. Nothing is decided yet."
                in shown.get_content()
            )
            assert shown["Message-ID"] != card["Message-ID"]
            assert await answers(store, question) == []
            house.post(reply(shown, "yes"), ANA, signed_by="ana.test")
            assert await answered(store, question) == (
                True,
                "yes\nbut only after the backup has run",
                "ana",
                "email",
            )

    played(play)


def test_offline_mails_are_read_once_at_the_next_start(
    store: ConversationStore, house: MailServer
) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        question = await ask(store, GO)
        async with running(store, channel(house)):
            card = await house.mail(ANA)
        house.post(reply(card), ANA, signed_by="ana.test")
        async with running(store, channel(house)):
            assert await answered(store, question) == (True, None, "ana", "email")
            await house.mail(ANA, 2)
        async with running(store, channel(house)):
            house.post(reply(card, "no"), ANA, signed_by="ana.test")
            await house.mail(BOT, 2)
        assert (len(house.mails(ANA)), len(await answers(store, question))) == (2, 1)

    played(play)


def test_rejected_mails_are_sent_once_when_the_server_accepts_them(
    store: ConversationStore, house: MailServer
) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        await ask(store, GO)
        house.code = "450 later"
        async with running(store, channel(house)):
            await asyncio.to_thread(house.refused.wait, 20)
            house.code = ""
            await house.mail(ANA)
        assert len(house.mails(ANA)) == 1

    played(play)


async def sent(house: MailServer, card: Card) -> str:
    """Send one card."""
    mails = channel(house)
    try:
        return await mails.send(card)
    finally:
        await mails.close()


def test_long_content_is_attached_completely(house: MailServer) -> None:
    async def play() -> None:
        content = ("+ größer\n" * 50_000).encode()
        handle = await sent(
            house,
            Card(to=ANA, token="t" * 22, heading="a", text="Write?", file=("call.txt", content)),
        )
        (mail,) = house.mails(ANA)
        assert mail["Message-ID"] == handle
        (attached,) = mail.iter_attachments()
        assert (attached.get_filename(), attached.get_content().replace("\r\n", "\n").encode()) == (
            "call.txt",
            content,
        )

    played(play)


def test_refusals_differ_from_unreachable_servers(house: MailServer) -> None:
    async def play() -> None:
        card = Card(to=ANA, heading="", text="Go?")
        house.code = "550 no such user"
        with pytest.raises(ChannelRefused, match="550"):
            await sent(house, card)
        house.code = ""
        house.stop()
        try:
            with pytest.raises(ChannelAway):
                await sent(house, card)
        finally:
            house.start()
        wrong = Email(
            BOT,
            "wrong",
            smtp="smtp://127.0.0.1:1",
            imap=f"imap://127.0.0.1:{house.imap}",
            authserv_id=AUTHSERV,
        )
        with pytest.raises(ChannelRefused, match="rejected the login"):
            await wrong.open(NoMemory())

    played(play)


def test_one_connection_sends_many_mails_and_a_refused_one_is_isolated(house: MailServer) -> None:
    async def play() -> None:
        mails = channel(house)
        house.greeted, house.refuses = 0, {"gone@bot.test"}
        for number in range(20):
            await mails.send(
                Card(to=ANA, token=f"{number:022}", heading="", text=f"Deploy number {number}?")
            )
            with pytest.raises(ChannelRefused, match="550"):
                await mails.send(Card(to="gone@bot.test", heading="", text="Go?"))
        await mails.close()
        assert house.greeted == 1
        assert [str(mail["Subject"]).split()[2] for mail in house.mails(ANA)] == [
            f"{number}?" for number in range(20)
        ]

    played(play)


@pytest.mark.parametrize("how", ["it went away meanwhile", "it has taken enough", "it rested"])
def test_closed_connection_is_reopened(
    house: MailServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        mails = channel(house)
        house.greeted, house.most = 0, 1 if how == "it has taken enough" else 0
        await mails.send(Card(to=ANA, token="a" * 22, heading="", text="First?"))
        if how == "it went away meanwhile":
            await asyncio.to_thread(house.stop)
            await asyncio.to_thread(house.start)
        elif how == "it rested":
            PatchedTime(monkeypatch).move(25)
            await asyncio.to_thread(house.left.wait, 20)
        await mails.send(Card(to=ANA, token="b" * 22, heading="", text="Second?"))
        await mails.close()
        assert house.greeted == 2
        assert [str(mail["Subject"]).split()[0] for mail in house.mails(ANA)] == [
            "First?",
            "Second?",
        ]

    played(play)


class NoMemory:
    """A memory that keeps nothing."""

    def get(self, name: str) -> str:
        del name
        return ""

    async def set(self, name: str, value: str) -> None: ...


@pytest.mark.parametrize(
    "url", ["http://mail.test", "imap://", "imaps://u:secret@mail.test", "smtp://mail.test"]
)
def test_invalid_address_is_reported(url: str) -> None:
    with pytest.raises(ConfigError, match="not the URL of a mail server"):
        Email(BOT, PASSWORD, smtp="smtps://mail.test", imap=url, authserv_id=AUTHSERV)
