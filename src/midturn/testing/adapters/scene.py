"""The world of one story: a store on disk, the state of the framework, what the tools did, and the people who answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from midturn.agent.assembly.session import Prompter
from midturn.agent.inquirer import Inquirer
from midturn.agent.message_replies import OnOpen
from midturn.errors import StoreError
from midturn.events.open_question import OpenQuestion
from midturn.events.types import Approval, Event, InquiryAnswered, InquiryRequest, TurnEnd
from midturn.question.question import Question
from midturn.stores.locked import HeldConversation
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from midturn.testing.adapters.program import AdapterHarness, Entry, ModelCall, ModelReply, Outcome, Program, ProgramTool, Saved
from midturn.tools.asking import CALL, ask, ask_sync
from midturn.tools.returned import Rejected

T = TypeVar("T")
MESSAGE = "Ship it."
NO = "Not deployed."


class Refusals:
    """A disk that refuses one write of the runs: the one with this number, from 1."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = 0

    @property
    def is_over(self) -> bool:
        """Whether it has refused that write."""
        return self.written >= self.number

    def count(self) -> None:
        """Count a write.

        Raises:
            StoreError: It is refused.
        """
        self.written += 1
        if self.written == self.number:
            raise StoreError("The disk refuses this write.")


class _RefusingStore(FileStore):
    def __init__(self, folder: Path, refusals: Refusals) -> None:
        super().__init__(folder)
        self._refusals = refusals

    async def open(self, id: str) -> HeldConversation:
        held = await super().open(id)
        append = held.append

        async def counted(batch: Sequence[Event]) -> None:
            self._refusals.count()
            await append(batch)

        held.append = counted
        return held


class Scene:
    """One story: each entry is that of another process, with a store that is opened anew and what the framework has saved.

    Args:
        harness: The framework.
        folder: An empty directory.
    """

    def __init__(self, harness: AdapterHarness, folder: Path) -> None:
        self.harness = harness
        self.folder = folder
        self.saved = Saved()
        self.effects: list[str] = []
        """What tools did, once each time they did it."""
        self.keys: Counter[str] = Counter()
        """The idempotency keys of the calls that did something."""
        self.conversation = ""
        self._plain: dict[str, Any] | None = None
        self.entered = ""
        """The message that was entered last: the same again goes on with it."""

    async def begin(self) -> None:
        """Make the conversation."""
        self.conversation = await self.store().new("")

    def store(self) -> ConversationStore:
        """Open the store anew, as another process does."""
        return FileStore(self.folder)

    # The program ------------------------------------------------------------------------------------------------------

    async def ask(self, question: Question[T]) -> T:
        """Ask in a tool; where the framework runs plain, return the answer that it was given."""
        return await ask(question) if self._plain is None else cast("T", self._plain[question.id])

    def ask_sync(self, question: Question[T]) -> T:
        """Ask in a tool that is not async, see `ask`."""
        return ask_sync(question) if self._plain is None else cast("T", self._plain[question.id])

    async def deploy(self, env: str) -> str:
        """Deploy the service, if a person says yes."""
        if not await self.ask(confirm(env)):
            raise Rejected(NO)
        return self.deployed(env)

    def deploy_sync(self, env: str) -> str:
        """Deploy the service, if a person says yes; in a thread."""
        if not self.ask_sync(confirm(env)):
            raise Rejected(NO)
        return self.deployed(env)

    def deployed(self, env: str) -> str:
        """Have the effect of a deployment."""
        self.effects.append(env)
        call = CALL.get(None)
        if self._plain is None and call is not None:
            self.keys[str(getattr(call, "idempotency_key", ""))] += 1
        return f"{env} is live."

    def program(self, *envs: str, tool: ProgramTool | None = None, call_id: str = "call") -> Program:
        """Return an agent that calls a tool for each of these places at once, and then repeats what it reads.

        Args:
            envs: The places; `eu` alone without any.
            tool: The tool; `deploy` without one.
            call_id: The beginning of the ids of the calls.
        """
        made = tool or ProgramTool("deploy", self.deploy)
        calls = [ModelCall(f"{call_id}_{number}", made.name, {"env": env}) for number, env in enumerate(envs or ("eu",), 1)]
        return Program(replies(calls), [made])

    # Entries ----------------------------------------------------------------------------------------------------------

    async def enter(  # noqa: PLR0913  each is another way in
        self,
        program: Program,
        text: str = MESSAGE,
        *,
        prompter: Prompter | None = None,
        key: str | None = None,
        author: str | None = None,
        on_open: OnOpen = "error",
        is_stream: bool = False,
        refusals: Refusals | None = None,
    ) -> Outcome:
        """Run the agent in a process of its own, or go on with what is saved."""
        store = self.store() if refusals is None else _RefusingStore(self.folder, refusals)
        inquirer = Inquirer(store, self.conversation, prompter)
        entry = Entry(inquirer, text, text != self.entered, key, author, on_open, is_stream)
        self.entered = text
        return await self.harness.run(program, self.saved, entry)

    async def enter_sync(self, program: Program, text: str = MESSAGE) -> Outcome:
        """Run the agent in a thread without an event loop."""
        entry = Entry(Inquirer(self.store(), self.conversation), text, text != self.entered)
        self.entered = text
        return await asyncio.to_thread(self.harness.run_sync, program, self.saved, entry)

    async def waits(self, program: Program, text: str = MESSAGE, *, key: str | None = None) -> Sequence[OpenQuestion]:
        """Run the agent, which has to wait; return the open questions."""
        outcome = await self.enter(program, text, key=key)
        same("the run waits", outcome.text, None)
        return await self.pending()

    async def plain(self, program: Program, answers: dict[str, Any]) -> str:
        """Return what the agent says in the framework without midturn, where tools have these answers; or the name of what it raises."""
        effects, self._plain = self.effects, answers
        self.effects = []
        try:
            outcome = await self.harness.run(program, Saved(), Entry(None, MESSAGE))
        except Exception as error:  # noqa: BLE001  whatever the framework raises is compared
            return type(error).__name__
        finally:
            self.effects, self._plain = effects, None
        return str(outcome.text)

    # People -----------------------------------------------------------------------------------------------------------

    async def pending(self) -> Sequence[OpenQuestion]:
        """Return the open questions."""
        return await self.store().pending(self.conversation)

    async def answer(self, value: object, about: str = "") -> None:
        """Answer the open question whose text contains `about`, or whose arguments do; the only one if it is empty."""
        await self.store().answer(await self.question(about), value, user="ada")

    async def question(self, about: str = "") -> OpenQuestion:
        """Return the open question whose text or arguments contain `about`."""
        found = [question for question in await self.pending() if about in f"{question.question.text} {question.arguments}"]
        same(f"number of open questions about {about!r}", len(found), 1)
        return found[0]

    async def asked(self) -> list[str]:
        """Return the text of every question on record, in order; of a permission, its kind `run`."""
        texts = map(_text, (await self.store().read(self.conversation)).events)
        return [text for text in texts if text]

    async def statuses(self) -> list[str]:
        """Return how each turn on record has ended."""
        events = (await self.store().read(self.conversation)).events
        return [event.status for event in events if isinstance(event, TurnEnd)]

    async def check_effects(self) -> None:
        """Check that no tool did anything that nobody on record has allowed."""
        events = (await self.store().read(self.conversation)).events
        yeses = sum(isinstance(event, InquiryAnswered) and event.answer is not False for event in events)
        yeses += sum(isinstance(event, Approval) and event.state in ("approved", "edited") for event in events)
        if len(self.keys) > yeses:
            raise AssertionError(f"{len(self.keys)} calls had an effect, and people allowed {yeses}: {self.effects}")


def reads(outcome: Outcome) -> str:
    """Return the last text of the model, with each result that contains a no of `deploy` as that no alone."""
    parts = str(outcome.text).removeprefix("read: ").split(" | ")
    return "read: " + " | ".join(NO if NO in part else part for part in parts)


def confirm(env: str) -> Question[bool]:
    """Return the question of `deploy`."""
    return Question.boolean("confirm", f"Deploy to {env}?")


def replies(calls: Sequence[ModelCall]) -> Callable[[int, Sequence[str]], ModelReply]:
    """Return a model that makes calls at once, and then repeats what it reads."""

    def reply(number: int, read: Sequence[str]) -> ModelReply:
        return ModelReply("", tuple(calls)) if number == 0 else ModelReply("read: " + " | ".join(read))

    return reply


def same(what: str, found: object, expected: object) -> None:
    """Compare.

    Raises:
        AssertionError: They differ.
    """
    if found != expected:
        raise AssertionError(f"{what}: {found!r}; expected {expected!r}")


async def raises(what: str, kind: type[BaseException], work: Awaitable[object]) -> BaseException:
    """Return the exception that work raises, or that is the cause of what it raises.

    Raises:
        AssertionError: It raises another one, or none.
    """
    try:
        returned = await work
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, kind):
            cause = cause.__cause__
        if cause is None:
            raise AssertionError(f"{what}: raised {error!r}; expected {kind.__name__}") from error
        return cause
    raise AssertionError(f"{what}: returned {returned!r}; expected {kind.__name__}")


def _text(event: Event) -> str:
    match event:
        case InquiryRequest():
            return event.question.text
        case Approval(state="waiting"):
            return event.kind
        case _:
            return ""
