"""Environment of one story: a store on disk, the framework's saved state, the effects of tools, and
the people who answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from midturn.agent.inquirer import Inquirer
from midturn.agent.message_replies import OnOpen
from midturn.errors import StoreError
from midturn.events.open_question import OpenQuestion
from midturn.events.types import Approval, Event, InquiryAnswered, InquiryRequest, TurnEnd
from midturn.prompter import Prompter
from midturn.question.question import Question
from midturn.stores.locked import LockedConversation
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from midturn.testing.adapters.program import (
    AdapterHarness,
    Entry,
    ModelReply,
    Outcome,
    PlannedCall,
    Program,
    ProgramTool,
    Saved,
)
from midturn.tools.asking import CALL, ask, ask_sync
from midturn.tools.returned import Rejected

T = TypeVar("T")
MESSAGE = "Ship it."
NO = "Not deployed."


class WriteFailure:
    """Makes one write fail: the write with this number, counted from 1 over all runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = 0

    @property
    def has_failed(self) -> bool:
        """Whether the write has failed."""
        return self.written >= self.number

    def count(self) -> None:
        """Count a write.

        Raises:
            StoreError: This is the write that must fail.
        """
        self.written += 1
        if self.written == self.number:
            raise StoreError("The test makes this write fail.")


class _FailingStore(FileStore):
    def __init__(self, folder: Path, write_failure: WriteFailure) -> None:
        super().__init__(folder)
        self._write_failure = write_failure

    async def open(self, id: str) -> LockedConversation:
        locked = await super().open(id)
        append = locked.append

        async def counted(batch: Sequence[Event]) -> None:
            self._write_failure.count()
            await append(batch)

        locked.append = counted
        return locked


class Scene:
    """Environment of one story.

    Each entry behaves like a new process: it opens the store again and uses the saved state.

    Args:
        harness: The framework.
        folder: An empty directory.
    """

    def __init__(self, harness: AdapterHarness, folder: Path) -> None:
        self.harness = harness
        self.folder = folder
        self.saved = Saved()
        self.effects: list[str] = []
        """Effects of tools, one item for each execution."""
        self.keys: Counter[str] = Counter()
        """Idempotency keys of the calls that had an effect."""
        self.conversation = ""
        self._plain: dict[str, Any] | None = None
        self.entered = ""
        """The last message. An entry with the same message continues its turn."""

    async def begin(self) -> None:
        """Create the conversation."""
        self.conversation = await self.store().new("")

    def store(self) -> ConversationStore:
        """Open the store, as a new process does."""
        return FileStore(self.folder)

    # The program
    # ----------------------------------------------------------------------------------------------

    async def ask(self, question: Question[T]) -> T:
        """Ask a question in a tool. If the framework runs without midturn, return the prepared
        answer.
        """
        return await ask(question) if self._plain is None else cast("T", self._plain[question.id])

    def ask_sync(self, question: Question[T]) -> T:
        """Ask a question in a synchronous tool. See `ask`."""
        return ask_sync(question) if self._plain is None else cast("T", self._plain[question.id])

    async def deploy(self, env: str) -> str:
        """Deploy the service if a person says yes."""
        if not await self.ask(confirm(env)):
            raise Rejected(NO)
        return self.deployed(env)

    def deploy_sync(self, env: str) -> str:
        """Deploy the service if a person says yes. Synchronous version of `deploy`."""
        if not self.ask_sync(confirm(env)):
            raise Rejected(NO)
        return self.deployed(env)

    def deployed(self, env: str) -> str:
        """Record the effect of a deployment, with the idempotency key of its call."""
        self.effects.append(env)
        call = CALL.get(None)
        if self._plain is None and call is not None:
            self.keys[str(getattr(call, "idempotency_key", ""))] += 1
        return f"{env} is live."

    def program(
        self, *envs: str, tool: ProgramTool | None = None, call_id: str = "call"
    ) -> Program:
        """Return an agent that calls a tool for all environments concurrently. Its last reply
        repeats the results.

        Args:
            envs: Names of the environments. Default: `eu`.
            tool: The tool. Default: `deploy`.
            call_id: Prefix of the call IDs.
        """
        made = tool or ProgramTool("deploy", self.deploy)
        calls = [
            PlannedCall(f"{call_id}_{number}", made.name, {"env": env})
            for number, env in enumerate(envs or ("eu",), 1)
        ]
        return Program(replies(calls), [made])

    # Entries
    # ----------------------------------------------------------------------------------------------

    async def enter(
        self,
        program: Program,
        text: str = MESSAGE,
        *,
        prompter: Prompter | None = None,
        key: str | None = None,
        author: str | None = None,
        on_open: OnOpen = "error",
        is_stream: bool = False,
        write_failure: WriteFailure | None = None,
    ) -> Outcome:
        """Run the agent as a new process would, or continue from the saved state."""
        store = self.store() if write_failure is None else _FailingStore(self.folder, write_failure)
        inquirer = Inquirer(store, self.conversation, prompter)
        entry = Entry(inquirer, text, text != self.entered, key, author, on_open, is_stream)
        self.entered = text
        return await self.harness.run(program, self.saved, entry)

    async def enter_sync(self, program: Program, text: str = MESSAGE) -> Outcome:
        """Run the agent in a thread without an event loop."""
        entry = Entry(Inquirer(self.store(), self.conversation), text, text != self.entered)
        self.entered = text
        return await asyncio.to_thread(self.harness.run_sync, program, self.saved, entry)

    async def waits(
        self, program: Program, text: str = MESSAGE, *, key: str | None = None
    ) -> Sequence[OpenQuestion]:
        """Run the agent, check that it waits for answers, and return the open questions."""
        outcome = await self.enter(program, text, key=key)
        expect_same("the run waits", outcome.text, None)
        return await self.pending()

    async def plain(self, program: Program, answers: dict[str, Any]) -> str:
        """Run the agent without midturn, with prepared answers.

        Return its text, or the name of the exception that it raised.
        """
        effects, self._plain = self.effects, answers
        self.effects = []
        try:
            outcome = await self.harness.run(program, Saved(), Entry(None, MESSAGE))
        except Exception as error:  # noqa: BLE001  the exception is compared, whatever its type
            return type(error).__name__
        finally:
            self.effects, self._plain = effects, None
        return str(outcome.text)

    # People
    # ----------------------------------------------------------------------------------------------

    async def pending(self) -> Sequence[OpenQuestion]:
        """Return the open questions."""
        return await self.store().pending(self.conversation)

    async def answer(self, value: object, about: str = "") -> None:
        """Answer the open question whose text or arguments contain `about`. If `about` is empty,
        answer the only open question.
        """
        await self.store().answer(await self.question(about), value, user="ada")

    async def question(self, about: str = "") -> OpenQuestion:
        """Return the open question whose text or arguments contain `about`."""
        found = [
            question
            for question in await self.pending()
            if about in f"{question.question.text} {question.arguments}"
        ]
        expect_same(f"number of open questions about {about!r}", len(found), 1)
        return found[0]

    async def asked(self) -> list[str]:
        """Return the texts of all recorded questions in order. For an approval, return its kind,
        such as `run`.
        """
        texts = map(_text, (await self.store().read(self.conversation)).events)
        return [text for text in texts if text]

    async def statuses(self) -> list[str]:
        """Return the final status of each recorded turn."""
        events = (await self.store().read(self.conversation)).events
        return [event.status for event in events if isinstance(event, TurnEnd)]

    async def check_effects(self) -> None:
        """Check that a recorded decision allowed each effect of a tool."""
        events = (await self.store().read(self.conversation)).events
        yeses = sum(
            isinstance(event, InquiryAnswered) and event.answer is not False for event in events
        )
        yeses += sum(
            isinstance(event, Approval) and event.state in ("approved", "edited")
            for event in events
        )
        if len(self.keys) > yeses:
            raise AssertionError(
                f"{len(self.keys)} calls had an effect, but people allowed {yeses}: {self.effects}"
            )


def reads(outcome: Outcome) -> str:
    """Return the model's last text. Tool results that contain the denial of `deploy` are shortened
    to that denial.
    """
    parts = str(outcome.text).removeprefix("read: ").split(" | ")
    return "read: " + " | ".join(NO if NO in part else part for part in parts)


def confirm(env: str) -> Question[bool]:
    """Return the question that `deploy` asks."""
    return Question.boolean("confirm", f"Deploy to {env}?")


def replies(calls: Sequence[PlannedCall]) -> Callable[[int, Sequence[str]], ModelReply]:
    """Return a model that makes all calls in one reply. Its last reply repeats the results."""

    def reply(number: int, read: Sequence[str]) -> ModelReply:
        return (
            ModelReply("", tuple(calls)) if number == 0 else ModelReply("read: " + " | ".join(read))
        )

    return reply


def expect_same(what: str, found: object, expected: object) -> None:
    """Compare two values.

    Raises:
        AssertionError: The values differ.
    """
    if found != expected:
        raise AssertionError(f"{what}: {found!r}; expected {expected!r}")


async def expect_error(
    what: str, kind: type[BaseException], work: Awaitable[object]
) -> BaseException:
    """Return the exception of type `kind` that `work` raises, directly or as a cause.

    Raises:
        AssertionError: `work` raises another exception, or no exception.
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
