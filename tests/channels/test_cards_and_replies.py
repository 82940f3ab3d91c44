"""Channels above their port: who gets a card, the effect of replies, changes of cards, invalid
replies.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import midturn as mt
from midturn.channels.port import Card, ChannelSettings, Fits, Reply
from midturn.channels.running import run
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.events.types import Notified, Vote
from midturn.stores.store import ConversationStore
from support.channels.fake import FakeChannel, Platform
from support.channels.scene import GO, SETTINGS, Scene, played
from support.pages import agent_with
from support.waiting import until


def test_button_answers_as_the_paired_person(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        async with scene.running():
            handle, card = await scene.platform.card("7")
            assert (card.heading, card.text) == ("deploy asks · shop", "Deploy to production?")
            assert [choice.label for choice in card.choices] == ["Yes", "No"]
            assert all(len(choice.token) <= 22 for choice in card.choices)
            scene.platform.press("7", handle, "Yes")
            over = await scene.platform.over(handle)
        assert await scene.answers(question.conversation) == [(True, None, "ana", "fake")]
        assert (over.text, over.notice, over.choices) == (
            "Deploy to production?",
            "Answered by ana (fake).",
            (),
        )
        noted = [
            event
            for event in (await scene.store.read(question.conversation)).events
            if isinstance(event, Notified)
        ]
        assert [(note.about, note.to, note.metadata) for note in noted] == [
            ("sent", ("ana",), {"channel": "phone", "message": handle})
        ]

    played(store, play)


@pytest.mark.parametrize(
    ("question", "words", "answer"),
    [
        (GO, "no, because it is Friday", (False, "it is Friday")),
        (GO, "👍", (True, None)),
        (mt.Question.select("where", "Where?", ["eu-1", "us-2"]), "2", ("us-2", None)),
        (mt.Question.multi_select("which", "Which?", ["a", "b", "c"]), "1, c", (["a", "c"], None)),
        (mt.Question.text("why", "Why?"), "back", ("back", None)),
        (mt.Question.number("how_many", "How many?", type=int, min=1, max=9), "3", (3, None)),
        (mt.Question.text("note", "A note?", optional=True), "/skip", (None, None)),
    ],
)
def test_text_is_parsed_as_at_a_prompt(
    store: ConversationStore,
    question: mt.Question[Any],
    words: str,
    answer: tuple[object, str | None],
) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        waiting = await scene.ask(question)
        async with scene.running():
            handle, _ = await scene.platform.card("7")
            scene.platform.write("7", words, handle)
            assert await scene.answered(waiting) == (*answer, "ana", "fake")

    played(store, play)


def test_invalid_answer_is_explained_on_the_card(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        async with scene.running():
            handle, first = await scene.platform.card("7")
            for words, said in (
                ("maybe", "neither yes nor no"),
                ("x" * 1_000_000, "1,000,000 characters"),
            ):
                scene.platform.write("7", words, handle)
                await until(lambda said=said: said in scene.platform.cards[handle].notice)
            scene.platform.tell(
                Reply(account="7", handle=handle, token=first.choices[1].token)
            )  # the same question: still valid
            assert await scene.answered(question) == (False, None, "ana", "fake")

    played(store, play)


def test_a_form_is_asked_question_by_question_with_back_and_a_review(
    store: ConversationStore,
) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        questions = [
            GO,
            mt.Question.select("where", "Where?", ["eu-1", "us-2"]),
            mt.Question.text("why", "Why?"),
        ]
        waiting = await scene.ask(mt.Form(questions, review=True))
        async with scene.running():
            handle, card = await scene.platform.card("7", lambda card: "(1 of 3)" in card.heading)
            scene.platform.press("7", handle, "Yes")
            await scene.platform.card("7", lambda card: card.text == "Where?")
            scene.platform.press("7", handle, "eu-1")
            await scene.platform.card("7", lambda card: card.text == "Why?")
            scene.platform.write("7", "/back", handle)
            await scene.platform.card("7", lambda card: card.text == "Where?")
            scene.platform.press("7", handle, "us-2")
            await scene.platform.card("7", lambda card: card.text == "Why?")
            scene.platform.write("7", "It is time.", handle)
            _, card = await scene.platform.card(
                "7", lambda card: any("us-2" in line for line in card.lines)
            )
            assert [choice.label for choice in card.choices][:1] == ["Send"]
            assert await scene.answers(waiting.conversation) == []
            scene.platform.press("7", handle, "Send")
            await scene.platform.over(handle)
        assert [answer[0] for answer in await scene.answers(waiting.conversation)] == [
            True,
            "us-2",
            "It is time.",
        ]
        assert scene.platform.sent == [handle]

    played(store, play)


def test_only_paired_people_can_answer(store: ConversationStore) -> None:
    """A stranger, a forwarded card, an edited message, an invented token, an account the
    platform does not confirm.
    """

    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.pair("bo", "8")
        only_ana = mt.Question.boolean("go", "Deploy?", people=mt.People(ask=["ana"], only=True))
        question = await scene.ask(only_ana)
        async with scene.running():
            handle, card = await scene.platform.card("7")
            token = card.choices[0].token
            for reply in (
                Reply(account="9", handle=handle, token=token),
                Reply(account="8", handle=handle, token=token),
                Reply(account="7", handle="99", token=token),
                Reply(account="7", handle=handle, token="A" * 22),
                Reply(account="7", handle=handle, token=token, place="room"),
                Reply(account="7", handle=handle, token=token, spoken_for=False),
                Reply(account="9", handle=handle, text="yes"),
                Reply(account="8", handle=handle, text="yes"),
                Reply(account="8", text="yes"),
            ):
                scene.platform.tell(reply)
            await until(lambda: scene.platform.confirmed == 9)
            assert await scene.answers(question.conversation) == []
            assert not scene.platform.open_cards("8")
            scene.platform.press("7", handle, "Yes")
            assert await scene.answered(question) == (True, None, "ana", "fake")

    played(store, play)


def test_late_answer_is_refused_with_the_first_responder(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.pair("bo", "8")
        question = await scene.ask(GO)
        async with scene.running():
            hers, her_card = await scene.platform.card("7")
            his, _ = await scene.platform.card("8")
            scene.platform.press("8", his, "No")
            await scene.platform.over(hers)
            scene.platform.cards[hers] = (
                her_card  # the change of the message reached her phone too late
            )
            scene.platform.press("7", hers, "Yes")
            assert (await scene.platform.over(hers)).notice == "Answered by bo (fake)."
        assert await scene.answers(question.conversation) == [(False, None, "bo", "fake")]

    played(store, play)


def test_answers_elsewhere_and_reassignments_update_the_cards(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.pair("bo", "8")
        question = await scene.ask(
            mt.Question.boolean("go", "Deploy?", people=mt.People(ask=["ana"]))
        )
        async with scene.running():
            hers, _ = await scene.platform.card("7")
            await scene.store.reassign(question.id, ["bo"], user="ana")
            his, _ = await scene.platform.card("8")
            assert (await scene.platform.over(hers)).notice == "Reassigned to someone else."
            await scene.store.answer(question.id, True, user="cy", via="web")
            assert (await scene.platform.over(his)).notice == "Answered by cy (web)."

    played(store, play)


def test_answers_given_while_offline_update_cards_at_the_next_start(
    store: ConversationStore,
) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        async with scene.running():
            handle, _ = await scene.platform.card("7")
            await scene.noted(handle)
        await scene.store.answer(question.id, value=False, user="bo", via="web")
        async with scene.running():
            assert (await scene.platform.over(handle)).notice == "Answered by bo (web)."

    played(store, play)


def test_refused_card_logs_one_line_and_is_sent_once_later(
    store: ConversationStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midturn.channels.card_reconciler.REFUSED_RETRY_DELAY", 0.01)

    async def notices(scene: Scene) -> list[list[Notified]]:
        read = [await scene.store.read(id) for id in await scene.store.ids()]
        return [[one for one in found.events if isinstance(one, Notified)] for found in read]

    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.pair("bo", "8")
        scene.platform.blocked_by = {"7"}
        for _ in range(3):
            await scene.ask(GO)
        async with scene.running():
            await until(lambda: scene.platform.refused > 20)
            assert len(scene.platform.open_cards("8")) == 3
            scene.platform.blocked_by.clear()
            await until(lambda: len(scene.platform.open_cards("7")) == 3)
            while [len(noted) for noted in await notices(scene)] != [3, 3, 3]:  # noqa: ASYNC110  recorded after the card was sent
                await asyncio.sleep(0.005)
        assert len(scene.platform.sent) == 6
        for noted in await notices(scene):
            assert [note.error for note in noted if note.to == ("ana",)] == [
                "rejected by phone: they have blocked the bot",
                None,
            ]
            assert [note.error for note in noted if note.to == ("bo",)] == [None]

    with caplog.at_level("WARNING"):
        played(store, play)
    assert [
        record.getMessage() for record in caplog.records if "blocked" in record.getMessage()
    ] == ["channel phone could not send a card and will retry: they have blocked the bot"]


def test_question_with_several_votes(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.pair("bo", "8")
        people = mt.People(ask=["ana", "bo"], only=True, approvals=2)
        question = await scene.ask(mt.Question.boolean("go", "Deploy?", people=people))
        async with scene.running():
            hers, _ = await scene.platform.card("7")
            his, _ = await scene.platform.card("8")
            scene.platform.press("7", hers, "Yes")
            await scene.platform.card("8", lambda card: "1 of 2" in card.heading)
            scene.platform.press("7", hers, "Yes")
            await until(lambda: "has said yes already" in scene.platform.cards[hers].notice)
            scene.platform.press("8", his, "Yes")
            assert await scene.answered(question) == (True, None, "bo", "fake")

    played(store, play)


def test_approval_shows_the_whole_call_or_a_file_or_has_no_yes(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        waiting = (
            await agent_with(scene.store, write, arguments={"content": "line\n" * 500}).run(
                "Write."
            )
        ).pending[0]
        async with scene.running(fits=Fits(text=1_000, buttons=8)):
            handle, card = await scene.platform.card("7")
            assert [choice.label for choice in card.choices] == ["Deny"]
            assert "Review and answer it on the web page" in card.hint
        async with scene.running(fits=Fits(text=1_000, buttons=8, files=True)):
            handle, card = await scene.platform.card("7", lambda card: card.file is not None)
            assert card.file is not None
            assert card.file[1].count(b"line") == 500
            scene.platform.press("7", handle, "Deny")
            await scene.platform.over(handle)
        assert not await scene.store.pending(waiting.conversation)

    played(store, play)


def test_typed_yes_is_refused_if_the_call_is_not_shown_completely(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        waiting = (
            await agent_with(scene.store, write, arguments={"content": "line\n" * 500}).run(
                "Write."
            )
        ).pending[0]
        async with scene.running(fits=Fits(text=1_000, buttons=0)):
            handle, _ = await scene.platform.card("7")
            scene.platform.write("7", "yes", handle)
            await until(lambda: "too long to show here" in scene.platform.cards[handle].notice)
            assert await scene.store.pending(waiting.conversation)
            scene.platform.write("7", "no, because it is long", handle)
            await scene.platform.over(handle)
        assert not await scene.store.pending(waiting.conversation)

    played(store, play)


def test_card_token_binds_text_to_the_card(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        waiting = await scene.ask(mt.Form([GO, mt.Question.boolean("sure", "Sure?")]))
        async with scene.running():
            _, first = await scene.platform.card("7")
            scene.platform.tell(Reply(account="7", token=first.token, text="yes"))
            _, second = await scene.platform.card("7", lambda card: card.text == "Sure?")
            scene.platform.tell(
                Reply(account="7", token=first.token, text="yes")
            )  # read twice, or a reply to the older text
            scene.platform.tell(Reply(account="7", token="ä" * 22, text="yes"))
            scene.platform.tell(Reply(account="7", token=second.token, text="no"))
            await scene.answered(waiting, 2)
        answers = await scene.answers(waiting.conversation)
        assert [answer[0] for answer in answers] == [True, False]

    played(store, play)


def test_failed_card_update_is_repeated_at_the_next_start(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.ask(mt.Form([GO, mt.Question.boolean("sure", "Sure?")]))
        async with scene.running():
            handle, card = await scene.platform.card("7")
            scene.platform.is_away = True
            scene.platform.tell(Reply(account="7", token=card.token, text="yes"))
            await until(lambda: scene.platform.confirmed)
            await asyncio.sleep(0.05)
        scene.platform.is_away = False
        async with scene.running():
            await scene.platform.card("7", lambda card: card.text == "Sure?")
        assert scene.platform.sent == [handle]

    played(store, play)


def test_no_at_the_review_does_not_send_the_form(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        waiting = await scene.ask(mt.Form([GO, WHY], review=True))
        async with scene.running():
            handle, card = await scene.platform.card("7")
            scene.platform.write("7", "no, because it is Friday", handle)
            await until(lambda: "cannot have a reason" in scene.platform.cards[handle].notice)
            scene.platform.write("7", "yes, but not now", handle)
            scene.platform.tell(Reply(account="7", token=card.token, text="no"))
            await scene.platform.card("7", lambda card: card.text == "Why?")
            scene.platform.write("7", "It is time.", handle)
            await scene.platform.card(
                "7", lambda card: "Send" in [choice.label for choice in card.choices]
            )
            for words in ("no", "yes, but not now"):
                scene.platform.write("7", words, handle)
                await until(lambda: scene.platform.cards[handle].notice != "")
                assert await scene.answers(waiting.conversation) == []
            scene.platform.write("7", "yes", handle)
            await scene.platform.over(handle)
        assert [answer[0] for answer in await scene.answers(waiting.conversation)] == [
            False,
            "It is time.",
        ]

    played(store, play)


def test_only_the_author_confirms_unclear_text_in_a_room(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.pair("bo", "8")
        question = await scene.ask(GO)
        async with scene.running(ChannelSettings(name="phone", rooms=("ops",))):
            handle, _ = await scene.platform.card("ops")
            scene.platform.tell(
                Reply(account="7", handle=handle, text="yes, if Bo agrees", place="ops")
            )
            _, card = await scene.platform.card(
                "ops", lambda card: "ana wrote: “yes, if Bo agrees”" in card.hint
            )
            labels = {choice.label: choice.token for choice in card.choices}
            assert [*labels] == ["Yes", "No", "Yes with this note", "No with this note", "Reply"]
            scene.platform.tell(
                Reply(account="8", handle=handle, token=labels["Yes with this note"], place="ops")
            )
            await until(
                lambda: "Only ana, who wrote this note" in scene.platform.cards[handle].notice
            )
            assert await scene.answers(question.conversation) == []
            scene.platform.tell(Reply(account="8", handle=handle, token=labels["No"], place="ops"))
            assert await scene.answered(question) == (False, None, "bo", "fake")

    played(store, play)


@pytest.mark.parametrize("more", ["but only after the backup", "Ana"])
def test_yes_with_further_lines_needs_confirmation(store: ConversationStore, more: str) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        async with scene.running():
            _, card = await scene.platform.card("7")
            scene.platform.tell(Reply(account="7", token=card.token, text="yes", more=more))
            _, card = await scene.platform.card(
                "7", lambda card: "Answer yes with this note?" in card.hint
            )
            scene.platform.tell(
                Reply(account="7", token=card.token, text="yes", more="and this is new")
            )
            _, card = await scene.platform.card("7", lambda card: "and this is new" in card.hint)
            assert await scene.answers(question.conversation) == []
            scene.platform.tell(
                Reply(account="7", token=card.token, text="yes", more="and this is new")
            )
            assert await scene.answered(question) == (True, "yes\nand this is new", "ana", "fake")

    played(store, play)


def test_vote_keeps_the_buttons_of_others_valid(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = (
            await agent_with(scene.store, release, arguments={"env": "staging"}).run("Go.")
        ).pending[0]
        async with scene.running():
            handle, first = await scene.platform.card("7")
            await scene.store.answer(
                question.id, approve=True, user="bo", via="web", digest=question.digest
            )
            _, second = await scene.platform.card("7", lambda card: "1 of 2" in card.heading)
            assert {choice.token for choice in first.choices}.isdisjoint(
                choice.token for choice in second.choices
            )
            scene.platform.tell(
                Reply(account="7", handle=handle, token=first.choices[0].token)
            )  # pressed before the vote arrived
            assert (await scene.platform.over(handle)).notice == "Answered by ana (fake)."

    played(store, play)


def test_buttons_stay_bound_to_the_displayed_content(store: ConversationStore) -> None:
    """The platform rejects updates meanwhile. Every button that was ever displayed stays
    valid.
    """

    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = (
            await agent_with(scene.store, release, arguments={"env": "staging"}).run("Go.")
        ).pending[0]
        async with scene.running():
            handle, first = await scene.platform.card("7")
            await scene.noted(handle)
            scene.platform.is_away = True
            for number, editor in enumerate(("bo", "cy", "bo")):
                open_now = (await scene.store.pending(question.conversation))[0]
                refused = scene.platform.refused
                await scene.store.answer(
                    question.id,
                    arguments={"env": f"env-{number}"},
                    user=editor,
                    via="web",
                    digest=open_now.digest,
                )
                await agent_with(scene.store, release).resume(
                    question.conversation
                )  # it evaluates the rules for the edited call
                await until(lambda refused=refused: scene.platform.refused > refused)
            scene.platform.tell(Reply(account="7", handle=handle, token=first.choices[0].token))
            scene.platform.tell(Reply(account="7", handle=handle, text="yes", id="2"))
            await until(lambda: scene.platform.confirmed == 2)
            scene.platform.is_away = False
            _, card = await scene.platform.card("7", lambda card: "env-2" in str(card.lines))
            assert card.notice
            events = (await scene.store.read(question.conversation)).events
            assert [
                event.answered_by and event.answered_by.user
                for event in events
                if isinstance(event, Vote)
            ][-1] == "bo"

    played(store, play)


@mt.tool(
    run=lambda _arguments, _context: mt.People(
        ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo", "cy"]}
    )
)
async def release(env: str) -> str:
    """Release."""
    return env


SURE = mt.Question.boolean("sure", "Sure?")
WHY = mt.Question.text("why", "Why?")


def test_button_pressed_twice_answers_once(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        waiting = await scene.ask(mt.Form([GO, SURE], review=True))
        async with scene.running():
            handle, card = await scene.platform.card("7")
            for _ in range(3):
                scene.platform.tell(Reply(account="7", handle=handle, token=card.choices[0].token))
            scene.platform.tell(Reply(account="7", handle=handle, token=card.choices[1].token))
            await until(lambda: scene.platform.confirmed == 4)
            _, card = await scene.platform.card("7", lambda card: bool(card.notice))
            notice = (
                "Your reply was about an earlier version of this card. This is the current version."
            )
            assert (card.text, card.notice) == ("Sure?", notice)
        assert await scene.answers(waiting.conversation) == []

    played(store, play)


@pytest.mark.parametrize("is_reply", [True, False])
def test_text_delivered_twice_answers_its_own_question(
    store: ConversationStore, *, is_reply: bool
) -> None:
    """A process may die after a text is recorded and before it is confirmed. It then gets the
    text again, maybe for the next question.
    """

    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.ask(mt.Form([GO, SURE, WHY], review=True))
        async with scene.running():
            handle, _ = await scene.platform.card("7")
            yes = Reply(account="7", handle=handle if is_reply else "", text="yes", id="1")
            scene.platform.tell(yes)
            await scene.platform.card("7", lambda card: card.text == "Sure?")
        scene.platform.tell(yes)
        async with scene.running():
            await until(lambda: scene.platform.confirmed == 2)
            scene.platform.tell(Reply(account="7", handle=handle, text="no", id="2"))
            await scene.platform.card("7", lambda card: card.text == "Why?")

    played(store, play)


def test_text_that_answered_a_question_does_not_affect_the_next(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        first = await scene.ask(GO)
        yes = Reply(account="7", text="yes", id="1")
        async with scene.running():
            await scene.noted((await scene.platform.card("7"))[0])
            scene.platform.tell(yes)
            await scene.answered(first)
        second = await scene.ask(SURE)
        scene.platform.tell(yes)
        async with scene.running():
            await scene.noted(
                (await scene.platform.card("7", lambda card: card.text == "Sure?"))[0]
            )
            await until(lambda: scene.platform.confirmed == 2)
            scene.platform.tell(yes)
            await until(lambda: scene.platform.confirmed == 3)
            assert await scene.answers(second.conversation) == []

    played(store, play)


def test_text_written_before_a_card_was_sent_is_not_its_answer(store: ConversationStore) -> None:
    """After a week without network, text sent to the bot meanwhile is read when the new card
    is there.
    """

    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        async with scene.running():
            handle, _ = await scene.platform.card("7")
            await scene.noted(handle)
            scene.platform.write("7", "yes", at="2026-01-01T00:00:00.000000Z")
            await until(lambda: "earlier version" in scene.platform.cards[handle].notice)
            assert await scene.answers(question.conversation) == []
            scene.platform.write("7", "no", at=now())
            assert await scene.answered(question) == (False, None, "ana", "fake")

    played(store, play)


def test_duplicate_cards_both_work(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        scene.platform.is_forgetful = True
        async with scene.running():
            await until(lambda: len(scene.platform.sent) == 2)
            first, second = scene.platform.sent
            await scene.noted(second)
            assert scene.platform.cards[first].choices == scene.platform.cards[second].choices
            scene.platform.press("7", first, "Yes")
            assert await scene.answered(question) == (True, None, "ana", "fake")

    played(store, play)


def test_answer_during_a_card_update_is_kept(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.ask(mt.Form([GO, SURE, WHY], review=True))
        async with scene.running():
            handle, card = await scene.platform.card("7")
            scene.platform.write("7", "maybe", handle)
            scene.platform.tell(
                Reply(account="7", handle=handle, token=card.choices[0].token)
            )  # while the notice is written
            await scene.platform.card("7", lambda card: card.text == "Sure?")

    played(store, play)


@mt.tool(run="ask")
async def write(content: str) -> str:
    """Write a file."""
    return content


def test_secrets_and_named_questions_are_not_sent_to_unsuitable_channels(
    store: ConversationStore,
) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.ask(mt.Question.secret("token", "Token?"))
        await scene.ask(
            mt.Question.boolean("only", "Only ana?", people=mt.People(ask=["ana"], only=True))
        )
        await scene.ask(mt.Question.boolean("human", "A human?", exclusive=True))
        await scene.ask(mt.Question.boolean("any", "Anyone?"))
        async with scene.running(fits=Fits(text=4_000, buttons=3, has_names=False)):
            _, card = await scene.platform.card("7")
        assert (len(scene.platform.sent), card.text) == (1, "Anyone?")

    played(store, play)


def test_room_is_used_only_if_configured_and_needs_pairing(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        async with scene.running(ChannelSettings(name="phone", rooms=("ops-room",))):
            handle, card = await scene.platform.card("ops-room")
            assert not scene.platform.open_cards("7")
            for account, place in (("9", "ops-room"), ("7", ""), ("7", "other-room")):
                scene.platform.tell(
                    Reply(account=account, handle=handle, token=card.choices[0].token, place=place)
                )
            await until(lambda: scene.platform.confirmed == 3)
            assert await scene.answers(question.conversation) == []
            scene.platform.tell(
                Reply(account="7", handle=handle, token=card.choices[0].token, place="ops-room")
            )
            assert await scene.answered(question) == (True, None, "ana", "fake")

    played(store, play)


def test_code_pairs_once_and_open_questions_are_sent(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.ask(GO)
        code = await ChannelState(scene.store.port, now).create_code("ana", "fake")
        async with scene.running():
            scene.platform.write("9", "hello, who are you?")
            scene.platform.write("7", f"/start {code.lower()}")
            await scene.platform.card("7")
            scene.platform.write("8", code)
            await until(lambda: scene.platform.confirmed == 3)
            assert not scene.platform.open_cards("8")
        assert [
            (pairing.person, pairing.account)
            for pairing in await ChannelState(scene.store.port, now).pairings()
        ] == [("ana", "7")]

    played(store, play)


def test_unreachable_platform_gets_cards_when_it_is_back(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        scene.platform.is_away = True
        await scene.ask(GO)
        async with scene.running():
            await asyncio.sleep(0.05)
            scene.platform.is_away = False
            await scene.noted((await scene.platform.card("7"))[0])
        async with scene.running():  # a later process does not send it again
            handle, _ = await scene.platform.card("7")
            scene.platform.press("7", handle, "Yes")
            await scene.platform.over(handle)
        assert scene.platform.sent == [handle]

    played(store, play)


def test_two_servers_share_a_channel_and_send_each_card_once(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        for _ in range(5):
            await scene.ask(GO)
        async with scene.running(), scene.running():
            await until(lambda: len(scene.platform.sent) >= 5)
            await asyncio.sleep(0.1)
        assert len(scene.platform.sent) == 5

    played(store, play)


def test_text_needs_confirmation_if_the_platform_requires_it(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(mt.Question.text("why", "Why?"))
        async with scene.running(fits=Fits(text=4_000, buttons=0, confirms=True)):
            handle, _ = await scene.platform.card("7")
            scene.platform.write("7", "Because.", handle)
            await scene.platform.card("7", lambda card: "You wrote: Because." in card.text)
            assert await scene.answers(question.conversation) == []
            scene.platform.write("7", "no", handle)
            await scene.platform.card("7", lambda card: card.text == "Why?")
            scene.platform.write("7", "It is time.", handle)
            await scene.platform.card("7", lambda card: "It is time." in card.text)
            scene.platform.write("7", "yes", handle)
            assert await scene.answered(question) == ("It is time.", None, "ana", "fake")

    played(store, play)


def test_external_text_is_sanitized(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.ask(
            mt.Question.select("x", "Sure?\u202e", ["a\u200b", "b\x1b[31m"], context="\x07bell")
        )
        async with scene.running():
            _, card = await scene.platform.card("7")
        assert not any(sign in _all_of(card) for sign in "\u202e\u200b\x1b\x07")

    played(store, play)


def _all_of(card: Card) -> str:
    return "\n".join(
        (
            card.heading,
            card.text,
            *card.lines,
            card.hint,
            card.notice,
            *(choice.label for choice in card.choices),
        )
    )


class _Slow(FakeChannel):
    """Returns the handle of a message only after the message got a reply."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        self.is_answered = asyncio.Event()

    async def send(self, card: Card) -> str:
        handle = await super().send(card)
        await self.is_answered.wait()
        return handle


def test_reply_before_the_message_is_confirmed_counts(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        question = await scene.ask(GO)
        channel = _Slow(scene.platform)
        async with scene.running(channel=channel):
            handle, _ = await scene.platform.card("7")
            scene.platform.write("7", "no, because it is late", handle)
            for _ in range(100):  # enough time to lose the reply
                await asyncio.sleep(0)
            channel.is_answered.set()
            assert await scene.answered(question) == (False, "it is late", "ana", "fake")

    played(store, play)


class _LosesCancellation(FakeChannel):
    """Loses a cancellation while it sends, as `asyncio.wait_for` does if its result arrives at
    that time.
    """

    async def send(self, card: Card) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await super().send(card)


def test_channel_stops_even_if_its_library_loses_the_cancellation(store: ConversationStore) -> None:
    async def play(scene: Scene) -> None:
        await scene.pair("ana", "7")
        await scene.ask(GO)
        running = asyncio.create_task(run(store, [(_LosesCancellation(scene.platform), SETTINGS)]))
        while not await ChannelState(store.port, now).cards("phone"):  # noqa: ASYNC110  the next step sends it
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(120):
            with suppress(asyncio.CancelledError):
                await running

    played(store, play)
