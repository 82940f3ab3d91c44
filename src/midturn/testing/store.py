"""Checks of a store: what holds wherever conversations are kept. For packages that add one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from midturn.agent.agent import Agent
from midturn.errors import AlreadyAnswered, StoreError, StoreLocked
from midturn.events.types import TurnStart
from midturn.models.scripted import ScriptedModel
from midturn.question.question import Question
from midturn.stores.locked import HeldConversation
from midturn.stores.port import HeldBy
from midturn.stores.queued_answer import HandedOver, Submission
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import refuse_inside_a_loop
from midturn.tools.asking import ToolContext
from midturn.tools.function import tool
from midturn.turn.view import TurnView

Opens: TypeAlias = Callable[[], ConversationStore]
_WORDS: Final = "Ship it: \x00 \x1b[31m \u202e \U0001d11e\r\n"
"""Words that a user may say, and that some databases cannot keep as they are."""
_AT: Final = "2026-11-21T10:00:00.000000Z"


def check_store_sync(opens: Opens) -> None:
    """Check a store, in a test that is not async (see `check_store`).

    Args:
        opens: Opens the place anew, as another process would; conversations are in it only after these checks.

    Raises:
        AssertionError: Something does not hold; the message says what.
        RuntimeError: An event loop is running in this thread; use `await check_store(…)` there.
    """
    refuse_inside_a_loop("check_store_sync", "await check_store(…)")
    asyncio.run(check_store(opens))


async def check_store(opens: Opens) -> None:
    """Play on a place what every store must do: turns that wait, are answered from elsewhere, and go on; holders, forks, removals.

    What one opening records, each other has to see at once. Crashes are not played: kill processes that write in tests of your own.

    Args:
        opens: Opens the place anew, as another process would; conversations are in it only after these checks.

    Raises:
        AssertionError: Something does not hold; the message says what.
    """
    for check in _CHECKS:
        await check(opens)


# What is checked ------------------------------------------------------------------------------------------------------------


async def _begins_empty(opens: Opens) -> None:
    _same("a place where nothing was recorded has no conversations", await opens().ids(), [])
    _same("a place where nothing was recorded has no open questions", await opens().pending(), [])


async def _leaves_nothing_of_a_run_that_never_began(opens: Opens) -> None:
    async def cancelled() -> None:
        async with asyncio.timeout(0):
            await _agent(opens()).run(_WORDS)

    await _raises("a run that is out of time before it begins is cancelled", TimeoutError, cancelled)
    _same("a run that is cancelled before it begins leaves nothing", await opens().port.ids(), [])


async def _goes_on_with_an_answer_from_elsewhere(opens: Opens) -> None:
    conversation, question = await _waiting(opens)
    _same("a turn whose question is open is not ready", await opens().ready(), [])
    receipt = await opens().answer(question, True, user="ada")
    _same("an answer to a conversation that no one holds is recorded at once", receipt.held, False)
    _same("a turn whose question was answered is ready", await opens().ready(), [conversation])
    result = await _agent(opens()).resume(conversation)
    _same("a turn goes on with the answer that was given elsewhere", (result.status, result.text), ("completed", "Done."))
    _same("a question that was answered is not open", await opens().pending(), [])
    _same("a turn that is finished is not ready", await opens().ready(), [])


async def _counts_the_first_answer(opens: Opens) -> None:
    conversation, question = await _waiting(opens)
    await opens().answer(question, False, user="ada")
    await _raises("the first answer counts", AlreadyAnswered, lambda: opens().answer(question, True, user="ben"))
    answers = [response.answer for _, response in TurnView.last((await opens().read(conversation)).events).answered]
    _same("the first answer is the only one that is recorded", answers, [False])


async def _keeps_what_was_said(opens: Opens) -> None:
    conversation, _ = await _waiting(opens)
    read = await opens().read(conversation)
    _same("every opening reads the same events", [*(await opens().read(conversation)).events], [*read.events])
    said = [getattr(event, "content", None) for event in read.events if event.type == "chat_request"]
    _same("what a user says is kept to the last character", said, [_WORDS])
    _same("there is one line for each event", len(await opens().port.lines(conversation)), len(read.events))


async def _lets_one_hold(opens: Opens) -> None:
    conversation, _ = await _waiting(opens)
    holding = await opens().open(conversation)
    await _raises("a conversation is held by one at a time", StoreLocked, lambda: opens().open(conversation))
    await _raises("a conversation that is held is not removed", StoreLocked, lambda: opens().remove(conversation))
    _same("reading waits for no holder", (await opens().read(conversation)).id, conversation)
    await _leave(holding)
    await _leave(await opens().open(conversation))


async def _hands_an_answer_to_the_holder(opens: Opens) -> None:
    conversation, question = await _waiting(opens)
    holding, event_id = await opens().open(conversation), question.rpartition("-")[2]
    looked = await opens().port.look(conversation)
    if not isinstance(looked, HeldBy):
        raise AssertionError("The store does not hold to this: `look` tells that a conversation is held.")  # noqa: TRY004  a check
    first, second = (HandedOver(event_id=event_id, at=_AT, submission=Submission(value=value)) for value in (True, False))
    _same("an answer is handed to the holder", await opens().port.hand_over(looked, first), True)
    _same("the first answer that is handed over counts", await opens().port.hand_over(looked, second), False)
    died = KeyboardInterrupt()
    await holding.__aexit__(type(died), died, None)
    await _leave(await opens().open(conversation))
    answers = [response.answer for _, response in TurnView.last((await opens().read(conversation)).events).answered]
    _same("an answer outlives the holder that it was handed to", answers, [True])


async def _gives_what_is_due_to_one(opens: Opens) -> None:
    conversation, question = await _waiting(opens)
    await opens().answer(question, True)
    claimed = [journal for claims in await asyncio.gather(*(opens().claim(50) for _ in range(3))) for journal in claims]
    _same("what is due is claimed once", [journal.conversation for journal in claimed].count(conversation), 1)
    _same("of what is claimed each is held", len(claimed), len({journal.conversation for journal in claimed}))
    for journal in claimed:
        await _leave(journal)


async def _lists_in_pages(opens: Opens) -> None:
    for _ in range(3):
        await _waiting(opens)
    ids = await opens().ids()
    _same("ids are listed by age", ids, sorted(ids))
    pages = [*await opens().ids(limit=2), *await opens().ids(after=ids[1])]
    _same("pages of ids follow each other", pages, ids)
    described = [id for id, _ in await opens().port.described()]  # noqa: A001  the port's word
    _same("every conversation in which anything is recorded is described", described, ids)
    some = [id for id, _ in await opens().port.described(only=[ids[2], "none", ids[0]])]  # noqa: A001  as above
    _same("some conversations are described without the others", some, [ids[0], ids[2]])
    _same("the newest conversation is known", await opens().port.newest(1), ids[-1:])
    newest = [*await opens().port.newest(2), *await opens().port.newest(len(ids), ids[-2])]
    _same("pages of the newest conversations follow each other", newest, ids[::-1])
    waiting = [question.id for question in await opens().pending()]
    asked = [*await opens().pending(limit=2), *await opens().pending(after=waiting[1])]
    _same("pages of open questions follow each other", [question.id for question in asked], waiting)
    await opens().answer(waiting[1], True)
    asked = await opens().pending(after=waiting[1], limit=len(waiting))
    _same("a page of open questions may follow one that is closed by now", [question.id for question in asked], waiting[2:])


async def _keeps_small_things_beside(opens: Opens) -> None:
    beside, later = opens().port.beside, opens().port.beside
    _same("nothing is kept beside conversations in the beginning", dict(await beside.kept("")), {})
    for name, content in (("a/1", b"one"), ("a/2 \u00e9", b"\x00\xff"), ("b", b"")):
        await beside.keep(name, content)
    await beside.keep("a/1", b"another")
    expected = {"a/1": b"another", "a/2 \u00e9": b"\x00\xff"}
    _same("other processes find what is kept, by its name", dict(await later.kept("a/")), expected)
    for name in ("a/1", "a/2 \u00e9", "b", "b"):
        await later.keep(name, None)
    _same("what is taken away is gone", dict(await beside.kept("")), {})


async def _forks_and_describes(opens: Opens) -> None:
    conversation, question = await _waiting(opens)
    await opens().answer(question, True)
    await _agent(opens()).resume(conversation)
    copy = await opens().fork(conversation)
    _same("a fork has the same lines", await opens().port.lines(copy), await opens().port.lines(conversation))
    await opens().port.describe(copy, title="A copy", labels=("x",))
    metadata = (await opens().read(copy)).metadata
    _same("a conversation keeps its title and labels", (metadata.title, tuple(metadata.labels)), ("A copy", ("x",)))
    await opens().remove(copy)
    await _raises("what is removed is gone", StoreError, lambda: opens().read(copy))
    _same("what is removed is in no list", copy in await opens().ids(), False)


async def _records_a_batch_whole(opens: Opens) -> None:
    conversation = await opens().new("Batches")
    holding = await opens().open(conversation)
    batch = [TurnStart(event_id=f"event_{number}", timestamp=_AT, more=2 - number) for number in range(3)]
    await holding.append(batch)
    _same("what is appended is read at once", len((await opens().read(conversation)).events), 3)
    await _leave(holding)


_CHECKS: Final[tuple[Callable[[Opens], Awaitable[None]], ...]] = (
    _begins_empty,
    _leaves_nothing_of_a_run_that_never_began,
    _goes_on_with_an_answer_from_elsewhere,
    _counts_the_first_answer,
    _keeps_what_was_said,
    _lets_one_hold,
    _hands_an_answer_to_the_holder,
    _gives_what_is_due_to_one,
    _lists_in_pages,
    _forks_and_describes,
    _keeps_small_things_beside,
    _records_a_batch_whole,
)


# What the checks stand on ---------------------------------------------------------------------------------------------------


@tool
async def deploy(ctx: ToolContext[None]) -> str:
    """Deploy."""
    return f"deployed: {await ctx.ask(Question.boolean('sure', 'Deploy?'))}"


def _agent(store: ConversationStore) -> Agent:
    return Agent(ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}]), tools=[deploy], store=store)


async def _waiting(opens: Opens) -> tuple[str, str]:
    """Begin a turn that waits for an answer; return its conversation and the question's address."""
    result = await _agent(opens()).run(_WORDS)
    pending = [question.id for question in await opens().pending(result.conversation)]
    _same("an open question is listed wherever the place is opened", pending, [question.id for question in result.pending])
    return result.conversation, pending[0]


async def _leave(holding: HeldConversation) -> None:
    await holding.__aexit__(None, None, None)


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"The store does not hold to this: {what}. Expected {expected!r}, found {found!r}.")


async def _raises(what: str, expected: type[Exception], work: Callable[[], Awaitable[object]]) -> None:
    try:
        done = await work()
    except expected:
        return
    raise AssertionError(f"The store does not hold to this: {what}. Expected {expected.__name__}, found {done!r}.")
