"""E-mail, with Dovecot and aiosmtpd: real mails, real signatures, IDLE."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from email.message import EmailMessage

import pytest

import midturn as mt
from midturn.channels.email import Email
from midturn.channels.mail import marked, read_mail
from midturn.channels.port import Card, ChannelAway, ChannelRefused
from midturn.channels.state import Ledger
from midturn.clock import now
from midturn.errors import ConfigError
from midturn.stores.store import ConversationStore
from support.channels.asked import answered, answers, ask, pair, running
from support.channels.dovecot import AUTHSERV, BOT, PASSWORD, MailHouse, no_dovecot
from support.clocks import MovedTime

pytestmark = [pytest.mark.real("channels"), pytest.mark.skipif(bool(no_dovecot()), reason=no_dovecot())]
GO = mt.Question.boolean("go", "Deploy to production?")
ANA = "ana@ana.test"


@pytest.fixture(scope="module")
def shared() -> Iterator[MailHouse]:
    """One mail server for all: starting it takes a second."""
    house = MailHouse()
    yield house
    house.remove()


@pytest.fixture
def house(shared: MailHouse) -> MailHouse:
    """A server with empty mailboxes."""
    shared.empty()
    return shared


def channel(house: MailHouse, address: str = BOT) -> Email:
    """Return the channel under test."""
    where = {"smtp": f"smtp://127.0.0.1:{house.smtp}", "imap": f"imap://127.0.0.1:{house.imap}"}
    return Email(address, PASSWORD, **where, authserv_id=AUTHSERV)


def reply(card: EmailMessage, text: str = "yes", sender: str = f"Ana <{ANA}>") -> EmailMessage:
    """Return a reply as a mail program writes it."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, BOT, f"Re: {card['Subject']}"
    message["In-Reply-To"] = card["Message-ID"]
    quote = "\n".join(f"> {line}" for line in card.get_content().splitlines()) if not card.is_multipart() else "> …"
    message.set_content(f"{text}\n\nOn Monday, 23 November, midturn wrote:\n{quote}\n")
    return message


def played(play: Callable[[], Awaitable[None]]) -> None:
    """Play a scene within half a minute."""

    async def scene() -> None:
        async with asyncio.timeout(60):
            await play()

    asyncio.run(scene())


def test_the_first_line_of_a_signed_reply_is_the_answer(store: ConversationStore, house: MailHouse) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        question = await ask(store, GO)
        async with running(store, channel(house)):
            card = await house.mail(ANA)
            assert card["Auto-Submitted"] == "auto-generated"
            assert card.get_content().replace("\r\n", "\n").startswith("deploy asks · shop\n\nDeploy to production?\n\nReply")
            house.post(reply(card, "no, because it is Friday"), ANA, signed_by="ana.test")
            assert await answered(store, question) == (False, "it is Friday", "ana", "email")
            over = await house.mail(ANA, 2)
        assert (over["In-Reply-To"], over.get_content().startswith("Answered by ana (email).")) == (card["Message-ID"], True)
        assert read_mail(over.as_bytes(), AUTHSERV).token == ""

    played(play)


def test_only_the_paired_person_answers_and_only_as_our_own_server_says(store: ConversationStore, house: MailHouse) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        await pair(store, "email", "bo", "bo@bo.test")
        question = await ask(store, mt.Question.boolean("go", "Deploy?", people=mt.People(ask=["ana"], only=True)))
        async with running(store, channel(house)):
            card = await house.mail(ANA)
            forged = b"Authentication-Results: %s; dkim=pass header.d=ana.test\r\n" % AUTHSERV.encode()
            house.post(reply(card), ANA)  # nothing says that it is hers
            house.post(forged + reply(card).as_bytes(), "m@evil.test")
            house.post(reply(card), "m@evil.test", signed_by="evil.test")
            house.post(house.sign(reply(card, "no").as_bytes(), "ana.test").replace(b"\nno\n", b"\nyes\n"), ANA)  # tampered with
            house.post(reply(card, sender="bo@bo.test"), "bo@bo.test", signed_by="bo.test")  # a card that was forwarded
            house.post(reply(card, sender=f'"{ANA}" <m@evil.test>'), "m@evil.test", signed_by="evil.test")
            away = reply(card)
            away["Auto-Submitted"] = "auto-replied"
            house.post(away, ANA, signed_by="ana.test")
            house.post(reply(card), "", signed_by="ana.test")  # a bounce
            stale = reply(card)
            stale.replace_header("Subject", f"Re: Deploy? {marked('A' * 22)}")
            house.post(stale, ANA, signed_by="ana.test")
            quoted = reply(card)
            quoted.replace_header("Subject", "Re: Deploy?")
            house.post(quoted, ANA, signed_by="ana.test")
            house.post(reply(card, "x" * 1_000_000), ANA, signed_by="ana.test")
            notice = await house.mail(ANA, 2)
            assert "are read" in notice.get_content()
            assert await answers(store, question) == []
            house.post(reply(notice, "no"), ANA, signed_by="ana.test")
            assert await answered(store, question) == (False, None, "ana", "email")

    played(play)


def test_a_code_pairs_and_free_text_is_confirmed(store: ConversationStore, house: MailHouse) -> None:
    async def play() -> None:
        question = await ask(store, mt.Question.text("why", "Warum?"))
        code = await Ledger(store.port, now).code_for("ana", "email")
        async with running(store, channel(house)):
            hello = EmailMessage()
            hello["From"], hello["To"], hello["Subject"] = ANA, BOT, code
            house.post(hello, ANA)  # that is not vouched for: it pairs no one, and the code is still good
            house.post(hello, ANA, signed_by="ana.test")
            card = await house.mail(ANA)
            answer = reply(card)
            answer.set_content("<div>nein</div>", subtype="html", cte="quoted-printable")
            house.post(answer, ANA, signed_by="ana.test")
            refused = await house.mail(ANA, 2)
            assert "This mail has no plain text" in refused.get_content()
            answer = reply(refused)
            answer.set_content("Größer ist schöner\n", cte="quoted-printable")
            house.post(answer, ANA, signed_by="ana.test")
            shown = await house.mail(ANA, 3)
            assert "You wrote: Größer ist schöner. Shall it be sent?" in shown.get_content()
            assert await answers(store, question) == []
            house.post(reply(shown), ANA, signed_by="ana.test")
            assert await answered(store, question) == ("Größer ist schöner", None, "ana", "email")

    played(play)


def test_a_yes_with_a_condition_below_it_decides_nothing(store: ConversationStore, house: MailHouse) -> None:
    async def play() -> None:
        await pair(store, "email", "ana", ANA)
        question = await ask(store, GO)
        async with running(store, channel(house)):
            card = await house.mail(ANA)
            house.post(reply(card, "yes\n\nbut only after the backup has run\n\nSent from my iPhone"), ANA, signed_by="ana.test")
            shown = await house.mail(ANA, 2)
            assert "You wrote: “yes⏎ but only after the backup has run”. Nothing is decided yet." in shown.get_content()
            assert shown["Message-ID"] != card["Message-ID"]
            assert await answers(store, question) == []
            house.post(reply(shown, "yes"), ANA, signed_by="ana.test")
            assert await answered(store, question) == (True, "yes\nbut only after the backup has run", "ana", "email")

    played(play)


def test_what_came_while_no_server_ran_is_read_at_the_next_start_and_once(store: ConversationStore, house: MailHouse) -> None:
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


def test_a_server_that_takes_no_mail_now_gets_each_card_once_it_does(store: ConversationStore, house: MailHouse) -> None:
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


async def sent(house: MailHouse, card: Card) -> str:
    """Send one card."""
    mails = channel(house)
    try:
        return await mails.send(card)
    finally:
        await mails.close()


def test_what_does_not_fit_is_attached_whole(house: MailHouse) -> None:
    async def play() -> None:
        content = ("+ größer\n" * 50_000).encode()
        handle = await sent(house, Card(to=ANA, token="t" * 22, heading="a", text="Write?", file=("call.txt", content)))
        (mail,) = house.mails(ANA)
        assert mail["Message-ID"] == handle
        (attached,) = mail.iter_attachments()
        assert (attached.get_filename(), attached.get_content().replace("\r\n", "\n").encode()) == ("call.txt", content)

    played(play)


def test_refusals_are_told_from_absence(house: MailHouse) -> None:
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
        wrong = Email(BOT, "wrong", smtp="smtp://127.0.0.1:1", imap=f"imap://127.0.0.1:{house.imap}", authserv_id=AUTHSERV)
        with pytest.raises(ChannelRefused, match="does not let"):
            await wrong.open(Nothing())

    played(play)


def test_many_mails_go_over_one_connection_and_one_that_is_refused_takes_no_other_with_it(house: MailHouse) -> None:
    async def play() -> None:
        mails = channel(house)
        house.greeted, house.refuses = 0, {"gone@bot.test"}
        for number in range(20):
            await mails.send(Card(to=ANA, token=f"{number:022}", heading="", text=f"Deploy number {number}?"))
            with pytest.raises(ChannelRefused, match="550"):
                await mails.send(Card(to="gone@bot.test", heading="", text="Go?"))
        await mails.close()
        assert house.greeted == 1
        assert [str(mail["Subject"]).split()[2] for mail in house.mails(ANA)] == [f"{number}?" for number in range(20)]

    played(play)


@pytest.mark.parametrize("how", ["it went away meanwhile", "it has taken enough", "it rested"])
def test_a_connection_that_the_server_has_closed_is_made_anew(house: MailHouse, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        mails = channel(house)
        house.greeted, house.most = 0, 1 if how == "it has taken enough" else 0
        await mails.send(Card(to=ANA, token="a" * 22, heading="", text="First?"))
        if how == "it went away meanwhile":
            await asyncio.to_thread(house.stop)
            await asyncio.to_thread(house.start)
        elif how == "it rested":
            MovedTime(monkeypatch).move(25)
            await asyncio.to_thread(house.left.wait, 20)
        await mails.send(Card(to=ANA, token="b" * 22, heading="", text="Second?"))
        await mails.close()
        assert house.greeted == 2
        assert [str(mail["Subject"]).split()[0] for mail in house.mails(ANA)] == ["First?", "Second?"]

    played(play)


class Nothing:
    """Nothing is kept."""

    def get(self, name: str) -> str:
        """Return nothing."""
        del name
        return ""

    async def set(self, name: str, value: str) -> None:
        """Keep nothing."""


@pytest.mark.parametrize("url", ["http://mail.test", "imap://", "imaps://u:secret@mail.test", "smtp://mail.test"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="no address of a mail server"):
        Email(BOT, PASSWORD, smtp="smtps://mail.test", imap=url, authserv_id=AUTHSERV)
