"""On each platform: a yes applies to the content of its card, text must be only a decision,
votes are shown at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import midturn as mt
from midturn.channels.card_reconciler import CardReconciler
from midturn.channels.port import Card, Reply
from midturn.channels.replies import Replies
from midturn.channels.state import ChannelState, SentCard
from midturn.clock import now
from midturn.events.types import Approval, InquiryAnswered, InquiryCancelled, ToolCallResponse, Vote
from midturn.stores.store import ConversationStore
from midturn.tools.function import FunctionTool
from support.channels.phones import DiscordPhone, Phone, Shown, act, kinds, missing, on
from support.channels.questions import ask, pair, running
from support.channels.sentences import CONDITIONAL, NOT_A_DECISION
from support.pages import agent_with
from support.waiting import until

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]  # warnings of the libraries
OPS = mt.People(ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo", "cy"]})
GO = mt.Question.boolean("go", "Deploy to production?")
KINDS = kinds()
OF_PEOPLE = [kind for kind in KINDS if kind != "ntfy"]
"""Questions for certain people are not sent to ntfy: a topic has no user names."""


@mt.tool(run=lambda _arguments, _context: OPS)
async def deploy(env: str) -> str:
    """Deploy."""
    return f"deployed to {env}"


@mt.tool(run="ask")
async def publish(env: str = "production") -> str:
    """Publish."""
    return f"published to {env}"


class Scene:
    """A store, Ana's phone, and a channel to it whose updates can be held back."""

    def __init__(
        self, store: ConversationStore, phone: Phone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.store = store
        self.phone = phone
        self._passes = asyncio.Event()
        self._passes.set()
        see_to = CardReconciler.reconcile

        async def held_back(deck: CardReconciler, id: str) -> None:
            await self._passes.wait()
            await see_to(deck, id)

        monkeypatch.setattr(CardReconciler, "reconcile", held_back)

    def hold_back(self) -> None:
        """Hold back all card updates, as a platform's rate limit does."""
        self._passes.clear()

    def let_pass(self) -> None:
        """Send updates again."""
        self._passes.set()

    async def card(self, *texts: str) -> Shown:
        """Wait for an open card with these texts, whose message is recorded as sent."""
        found: list[Shown] = []

        def is_shown() -> bool:
            found[:] = [
                card
                for card in self.phone.cards()
                if card.is_open and all(self._shows(card, text) for text in texts)
            ]
            return bool(found)

        await until(is_shown)
        if self._passes.is_set():
            await self.sent(lambda card: bool(card.there) and card.there == card.about)
        return found[-1]

    def _shows(self, card: Shown, text: str) -> bool:
        """Also search the files of a card: Discord gets text with a code fence as a file."""
        files: Sequence[tuple[str, bytes]] = (
            self.phone.server.files.get(card.ref, [])
            if isinstance(self.phone, DiscordPhone)
            else []
        )
        return text in card.text or any(text.encode() in content for _, content in files)

    async def sent(self, holds: Callable[[SentCard], bool]) -> None:
        """Wait until the channel's record of its card matches."""
        while not any(  # noqa: ASYNC110  another task keeps it
            map(holds, (await ChannelState(self.store.port, now).cards("real")).values())
        ):
            await asyncio.sleep(0.005)

    async def say(self, card: Shown, does: str) -> None:
        """Press a button of the card; write its label on a platform without buttons."""
        words = {
            "Allow": "yes",
            "Deny": "no",
            "Allow with this note": "yes",
            "Deny with this note": "no",
            "Reply": "reply",
        }
        await act(self.phone, card, does if does in card.buttons else words.get(does, does))

    async def votes(self, question: mt.OpenQuestion) -> list[tuple[str | None, object]]:
        """Return the recorded votes and whether each is a yes."""
        events = (await self.store.read(question.conversation)).events
        return [
            (event.answered_by and event.answered_by.user, event.answer)
            for event in events
            if isinstance(event, Vote)
        ]

    async def decision(self, question: mt.OpenQuestion) -> tuple[object, str | None] | None:
        """Return the recorded decision and its reason; None if the question is open."""
        events = (await self.store.read(question.conversation)).events
        for event in events:
            if isinstance(event, Approval) and event.state != "waiting":
                return event.state, event.reason
            if isinstance(event, InquiryAnswered):
                return event.answer, event.reason
        return None

    async def decided(self, question: mt.OpenQuestion) -> tuple[object, str | None]:
        """Wait for the decision."""
        while (found := await self.decision(question)) is None:  # noqa: ASYNC110  another task records it
            await asyncio.sleep(0.01)
        return found


def played(
    store: ConversationStore,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    play: Callable[[Scene], Awaitable[None]],
) -> None:
    """Run a scene in which Ana is paired and the channel is running."""
    if reason := missing(kind):
        pytest.skip(reason)

    @asynccontextmanager
    async def prepared() -> AsyncGenerator[Scene]:
        async with on(kind) as phone:
            await pair(store, kind, "ana", phone.account)
            async with running(store, phone.channel()):
                await phone.listening()
                yield Scene(store, phone, monkeypatch)

    async def scene() -> None:
        async with asyncio.timeout(120), prepared() as scene:
            await play(scene)

    asyncio.run(scene())


async def called(store: ConversationStore, tool: FunctionTool[..., Any]) -> mt.OpenQuestion:
    """Have a model call a tool with `env` staging; return the question about it."""
    return (await agent_with(store, tool, arguments={"env": "staging"}).run("Go.")).pending[0]


async def edited(store: ConversationStore, question: mt.OpenQuestion, user: str) -> None:
    """Edit `env` to production on the page as a user. The program that runs the turn evaluates
    its rules again.
    """
    await store.answer(
        question.id, arguments={"env": "production"}, user=user, via="web", digest=question.digest
    )
    assert (await agent_with(store, deploy).resume(question.conversation)).pending[0].arguments == {
        "env": "production"
    }


@pytest.mark.parametrize("typed", [False, True], ids=["button", "typed"])
@pytest.mark.parametrize("kind", OF_PEOPLE)
def test_yes_to_a_call_edited_by_another_voter_does_not_count(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch, *, typed: bool
) -> None:
    async def play(scene: Scene) -> None:
        question = await called(store, deploy)
        card = await scene.card("staging")
        scene.hold_back()
        await edited(store, question, "bo")
        await scene.say(card, "yes" if typed else "Allow")
        await scene.sent(lambda _: True)
        await asyncio.sleep(
            0.3 if kind not in ("email", "matrix") else 1.5
        )  # a wrong effect would be visible by now
        assert await scene.votes(question) == [("bo", True)]
        assert "staging" in next(one for one in scene.phone.cards() if one.ref == card.ref).text
        scene.let_pass()
        card = await scene.card("production", "1 of 2")
        assert await scene.decision(question) is None
        await until(
            lambda: any(
                "changed" in one.text or "earlier version" in one.text
                for one in scene.phone.cards()
            )
        )  # the sender is notified
        await asyncio.sleep(1.1)  # Telegram's message times have a resolution of one second
        await scene.say(await scene.card("production", "1 of 2"), "yes" if typed else "Allow")
        assert (await scene.decided(question))[0] == "edited"
        assert await scene.votes(question) == [("bo", True), ("ana", True)]

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize("kind", OF_PEOPLE)
def test_text_written_before_an_edit_was_shown_does_not_approve_it(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read after the card has changed. The platform keeps unread messages."""

    async def play(scene: Scene) -> None:
        question = await called(store, deploy)
        card = await scene.card("staging")
        await scene.phone.write("yes", card.ref)
        await edited(store, question, "bo")
        await scene.card("production")
        votes = await scene.votes(question)
        assert ("ana", True) not in votes[votes.index(("bo", True)) :]

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize("kind", OF_PEOPLE)
def test_yes_that_arrives_while_its_card_changes_does_not_approve_the_new_arguments(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing, found, handled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    find, prepare = CardReconciler.find_card, CardReconciler._prepare_card
    handle = Replies.handle

    def found_card(cards: CardReconciler, reply: Reply) -> SentCard | None:
        found.set()
        return find(cards, reply)

    async def prepared(
        cards: CardReconciler, question: mt.OpenQuestion, new: SentCard
    ) -> tuple[SentCard, Card] | None:
        if question.arguments == {"env": "production"}:
            changing.set()
            await found.wait()
        return await prepare(cards, question, new)

    async def handle_once(replies: Replies, reply: Reply) -> None:
        await handle(replies, reply)
        handled.set()

    async def play(scene: Scene) -> None:
        question = await called(store, deploy)
        card = await scene.card("staging")
        monkeypatch.setattr(Replies, "handle", handle_once)
        monkeypatch.setattr(CardReconciler, "find_card", found_card)
        monkeypatch.setattr(CardReconciler, "_prepare_card", prepared)
        await edited(store, question, "bo")
        await changing.wait()
        await scene.say(card, "Allow")
        await handled.wait()
        assert ("ana", True) not in await scene.votes(question)
        await scene.card("production", "earlier version of this card")

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize("kind", OF_PEOPLE)
def test_vote_is_shown_on_the_other_cards_immediately(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midturn.channels.card_reconciler.RECHECK_INTERVAL", 3_600.0)

    async def play(scene: Scene) -> None:
        question = await called(store, deploy)
        await scene.card("0 of 2")
        await store.answer(question.id, approve=True, user="bo", via="web", digest=question.digest)
        await scene.card("1 of 2")
        await store.withdraw_vote(question.id, user="bo", via="web")
        await scene.card("0 of 2")
        await edited(store, question, "cy")
        await scene.card("production", "1 of 2")

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize("kind", KINDS)
def test_text_with_more_than_a_decision_decides_nothing(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(scene: Scene) -> None:
        question = await called(store, publish)
        await scene.card("publish")
        for words in (*CONDITIONAL, *NOT_A_DECISION):
            card = await scene.card()
            await asyncio.sleep(
                1.1 if kind == "telegram" else 0
            )  # its message times have a resolution of one second
            await scene.phone.write(words, card.ref)
            said = (
                f"wrote: “{words}”. Nothing is decided yet."
                if words in CONDITIONAL
                else "neither yes nor no"
            )
            await scene.card(said)
        assert await scene.decision(question) is None
        assert await store.pending(question.conversation)

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize(
    ("does", "decision"),
    [
        ("Allow with this note", ("approved", "Yes, if Bo agrees")),
        ("Deny with this note", ("skipped", "Yes, if Bo agrees")),
        ("no, because it is Friday", ("skipped", "it is Friday")),
        ("no: it is Friday", ("skipped", "it is Friday")),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_author_confirms_unclear_text(
    store: ConversationStore,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    does: str,
    decision: tuple[object, str | None],
) -> None:
    async def play(scene: Scene) -> None:
        question = await called(store, publish)
        card = await scene.card("publish")
        await scene.phone.write("Yes, if Bo agrees", card.ref)
        card = await scene.card("Approve with this note?", "publish")
        assert await scene.decision(question) is None
        await asyncio.sleep(
            1.1 if kind == "telegram" else 0
        )  # its message times have a resolution of one second
        await scene.say(card, does)
        assert await scene.decided(question) == decision

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize("does", ["Reply", "again", "yes"])
@pytest.mark.parametrize("kind", KINDS)
def test_unclear_text_becomes_a_reply_or_is_rewritten(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    async def play(scene: Scene) -> None:
        question = await ask(store, GO)
        card = await scene.card("Deploy to production?")
        await scene.phone.write("no problem, go ahead", card.ref)
        card = await scene.card("Answer yes with this note?")
        await asyncio.sleep(
            1.1 if kind == "telegram" else 0
        )  # its message times have a resolution of one second
        await scene.say(card, does)
        if does == "Reply":
            while await store.pending(question.conversation):  # noqa: ASYNC110  another task records it
                await asyncio.sleep(0.01)
            events = (await store.read(question.conversation)).events
            assert [event.reason for event in events if isinstance(event, InquiryCancelled)] == [
                "reply"
            ]
            assert any(
                "no problem, go ahead" in event.content
                for event in events
                if isinstance(event, ToolCallResponse)
            )
        elif does == "yes":
            assert await scene.decided(question) == (True, "no problem, go ahead")
        else:
            await scene.sent(lambda card: card.note is None and card.there == card.about != "")
            assert await scene.decision(question) is None
            assert (
                kind in ("email", "matrix")
                or "Nothing is decided yet" not in scene.phone.cards()[-1].text
            )  # these platforms keep old messages

    played(store, kind, monkeypatch, play)


@pytest.mark.parametrize("kind", OF_PEOPLE)
def test_unclear_text_is_dropped_when_the_call_is_edited(
    store: ConversationStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(scene: Scene) -> None:
        question = await called(store, deploy)
        card = await scene.card("staging")
        await scene.phone.write("yes, but only staging", card.ref)
        card = await scene.card("Approve with this note?")
        scene.hold_back()
        await edited(store, question, "bo")
        await asyncio.sleep(
            1.1 if kind == "telegram" else 0
        )  # its message times have a resolution of one second
        await scene.say(card, "Allow with this note")
        await asyncio.sleep(
            0.3 if kind not in ("email", "matrix") else 1.5
        )  # a wrong effect would be visible by now
        assert await scene.votes(question) == [("bo", True)]
        scene.let_pass()
        await scene.card("production", "1 of 2")
        await scene.sent(lambda card: card.note is None)
        assert await scene.decision(question) is None

    played(store, kind, monkeypatch, play)
