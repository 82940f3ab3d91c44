"""Conformance checks for packages that implement a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from midturn.agent.agent import Agent
from midturn.errors import AlreadyAnswered, StoreError, StoreLocked
from midturn.events.types import TurnStart
from midturn.models.scripted import ScriptedModel
from midturn.question.question import Question
from midturn.stores.locked import LockedConversation
from midturn.stores.port import LockedBy
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import refuse_inside_a_loop
from midturn.tools.asking import ToolContext
from midturn.tools.function import tool
from midturn.turn.view import TurnView

OpenStore: TypeAlias = Callable[[], ConversationStore]
_AWKWARD_TEXT: Final = "Ship it: \x00 \x1b[31m \u202e \U0001d11e\r\n"
"""Text with characters that some databases cannot store unchanged."""
_TIMESTAMP: Final = "2026-11-21T10:00:00.000000Z"


def check_store_sync(opens: OpenStore) -> None:
    """Check a store. Synchronous version of `check_store`.

    Args:
        opens: Opens a new connection to the same storage, as another process would. The storage
            must be empty at first.

    Raises:
        AssertionError: A check failed. The message describes the requirement.
        RuntimeError: An event loop is running in this thread; use `await check_store(…)` instead.
    """
    refuse_inside_a_loop("check_store_sync", "await check_store(…)")
    asyncio.run(check_store(opens))


async def check_store(opens: OpenStore) -> None:
    """Check the behaviour that every store must have: open and answered turns, locks, forks,
    removal.

    Changes made through one connection must be visible to all other connections immediately.
    Crashes are not tested; to test them, kill processes while they write.

    Args:
        opens: Opens a new connection to the same storage, as another process would. The storage
            must be empty at first.

    Raises:
        AssertionError: A check failed. The message describes the requirement.
    """
    for check in _CHECKS:
        await check(opens)


# The checks
# --------------------------------------------------------------------------------------------------


async def _is_empty_at_first(opens: OpenStore) -> None:
    _expect("a new storage has no conversations", await opens().ids(), [])
    _expect("a new storage has no open questions", await opens().pending(), [])


async def _stores_nothing_for_a_cancelled_start(opens: OpenStore) -> None:
    async def cancelled() -> None:
        async with asyncio.timeout(0):
            await _agent(opens()).run(_AWKWARD_TEXT)

    await _expect_error(
        "a run whose timeout expires before it starts is cancelled", TimeoutError, cancelled
    )
    _expect("a run that is cancelled before it starts stores nothing", await opens().port.ids(), [])


async def _resumes_with_a_stored_answer(opens: OpenStore) -> None:
    conversation, question = await _start_waiting_turn(opens)
    _expect("a turn with an open question is not ready", await opens().ready(), [])
    receipt = await opens().answer(question, True, user="ada")
    _expect("an answer is recorded at once if the conversation is not locked", receipt.held, False)
    _expect(
        "a turn is ready after its question was answered", await opens().ready(), [conversation]
    )
    result = await _agent(opens()).resume(conversation)
    _expect(
        "a resumed turn uses the stored answer",
        (result.status, result.text),
        ("completed", "Done."),
    )
    _expect("an answered question is not open", await opens().pending(), [])
    _expect("a finished turn is not ready", await opens().ready(), [])


async def _accepts_only_the_first_answer(opens: OpenStore) -> None:
    conversation, question = await _start_waiting_turn(opens)
    await opens().answer(question, False, user="ada")
    await _expect_error(
        "a second answer is rejected",
        AlreadyAnswered,
        lambda: opens().answer(question, True, user="ben"),
    )
    answers = [
        response.answer
        for _, response in TurnView.last((await opens().read(conversation)).events).answered
    ]
    _expect("only the first answer is recorded", answers, [False])


async def _stores_text_unchanged(opens: OpenStore) -> None:
    conversation, _ = await _start_waiting_turn(opens)
    read = await opens().read(conversation)
    _expect(
        "all connections read the same events",
        [*(await opens().read(conversation)).events],
        [*read.events],
    )
    texts = [
        getattr(event, "content", None) for event in read.events if event.type == "chat_request"
    ]
    _expect("the user's text is stored unchanged", texts, [_AWKWARD_TEXT])
    _expect(
        "the log has one line for each event",
        len(await opens().port.lines(conversation)),
        len(read.events),
    )


async def _locks_conversations(opens: OpenStore) -> None:
    conversation, _ = await _start_waiting_turn(opens)
    locked = await opens().open(conversation)
    await _expect_error(
        "only one process can lock a conversation", StoreLocked, lambda: opens().open(conversation)
    )
    await _expect_error(
        "a locked conversation cannot be removed", StoreLocked, lambda: opens().remove(conversation)
    )
    _expect(
        "a locked conversation can be read", (await opens().read(conversation)).id, conversation
    )
    await _release(locked)
    await _release(await opens().open(conversation))


async def _queues_answers_for_the_lock_holder(opens: OpenStore) -> None:
    conversation, question = await _start_waiting_turn(opens)
    locked, event_id = await opens().open(conversation), question.rpartition("-")[2]
    looked = await opens().port.look(conversation)
    if not isinstance(looked, LockedBy):
        raise AssertionError(  # noqa: TRY004  a check
            "The store does not meet this requirement: `look` reports that a conversation is"
            " locked."
        )
    first, second = (
        QueuedAnswer(event_id=event_id, at=_TIMESTAMP, submission=SubmittedAnswer(value=value))
        for value in (True, False)
    )
    _expect(
        "an answer can be queued for the process that holds the lock",
        await opens().port.queue_answer(looked, first),
        True,
    )
    _expect(
        "a second queued answer is rejected", await opens().port.queue_answer(looked, second), False
    )
    died = KeyboardInterrupt()
    await locked.__aexit__(type(died), died, None)
    await _release(await opens().open(conversation))
    answers = [
        response.answer
        for _, response in TurnView.last((await opens().read(conversation)).events).answered
    ]
    _expect(
        "a queued answer is recorded even if the process that held the lock dies", answers, [True]
    )


async def _claims_a_ready_turn_once(opens: OpenStore) -> None:
    conversation, question = await _start_waiting_turn(opens)
    await opens().answer(question, True)
    claimed = [
        journal
        for claims in await asyncio.gather(*(opens().claim(50) for _ in range(3)))
        for journal in claims
    ]
    _expect(
        "a ready turn is claimed only once",
        [journal.conversation for journal in claimed].count(conversation),
        1,
    )
    _expect(
        "claims contain each conversation only once",
        len(claimed),
        len({journal.conversation for journal in claimed}),
    )
    for journal in claimed:
        await _release(journal)


async def _lists_in_pages(opens: OpenStore) -> None:
    for _ in range(3):
        await _start_waiting_turn(opens)
    ids = await opens().ids()
    _expect("ids are sorted by age", ids, sorted(ids))
    pages = [*await opens().ids(limit=2), *await opens().ids(after=ids[1])]
    _expect("pages of ids are consecutive", pages, ids)
    described = [id for id, _ in await opens().port.described()]  # noqa: A001  `id` is the port's term
    _expect("`described` returns every conversation that contains events", described, ids)
    some = [id for id, _ in await opens().port.described(only=[ids[2], "none", ids[0]])]  # noqa: A001  as above
    _expect("`described` with `only` returns only these conversations", some, [ids[0], ids[2]])
    _expect("`newest` returns the newest conversation", await opens().port.newest(1), ids[-1:])
    newest = [*await opens().port.newest(2), *await opens().port.newest(len(ids), ids[-2])]
    _expect("pages of the newest conversations are consecutive", newest, ids[::-1])
    waiting = [question.id for question in await opens().pending()]
    asked = [*await opens().pending(limit=2), *await opens().pending(after=waiting[1])]
    _expect("pages of open questions are consecutive", [question.id for question in asked], waiting)
    await opens().answer(waiting[1], True)
    asked = await opens().pending(after=waiting[1], limit=len(waiting))
    _expect(
        "a page of open questions can start after a closed question",
        [question.id for question in asked],
        waiting[2:],
    )


async def _stores_key_value_entries(opens: OpenStore) -> None:
    first, second = opens().port.beside, opens().port.beside
    _expect("a new storage has no key-value entries", dict(await first.kept("")), {})
    for name, content in (("a/1", b"one"), ("a/2 \u00e9", b"\x00\xff"), ("b", b"")):
        await first.keep(name, content)
    await first.keep("a/1", b"another")
    expected = {"a/1": b"another", "a/2 \u00e9": b"\x00\xff"}
    _expect(
        "other connections find entries by their prefix", dict(await second.kept("a/")), expected
    )
    for name in ("a/1", "a/2 \u00e9", "b", "b"):
        await second.keep(name, None)
    _expect("a deleted entry is gone", dict(await first.kept("")), {})


async def _forks_and_describes(opens: OpenStore) -> None:
    conversation, question = await _start_waiting_turn(opens)
    await opens().answer(question, True)
    await _agent(opens()).resume(conversation)
    copy = await opens().fork(conversation)
    _expect(
        "a fork has the same log lines",
        await opens().port.lines(copy),
        await opens().port.lines(conversation),
    )
    await opens().port.describe(copy, title="A copy", labels=("x",))
    metadata = (await opens().read(copy)).metadata
    _expect(
        "the title and labels of a conversation are stored",
        (metadata.title, tuple(metadata.labels)),
        ("A copy", ("x",)),
    )
    await opens().remove(copy)
    await _expect_error(
        "a removed conversation cannot be read", StoreError, lambda: opens().read(copy)
    )
    _expect("a removed conversation is not listed", copy in await opens().ids(), False)


async def _appends_a_batch_atomically(opens: OpenStore) -> None:
    conversation = await opens().new("Batches")
    locked = await opens().open(conversation)
    batch = [
        TurnStart(event_id=f"event_{number}", timestamp=_TIMESTAMP, more=2 - number)
        for number in range(3)
    ]
    await locked.append(batch)
    _expect(
        "appended events can be read at once", len((await opens().read(conversation)).events), 3
    )
    await _release(locked)


async def _finds_conversations_by_key(opens: OpenStore) -> None:
    _expect("an unused key finds no conversation", await opens().find(_AWKWARD_TEXT), None)
    created = await asyncio.gather(*(opens().new(key=_AWKWARD_TEXT) for _ in range(4)))
    _expect("one conversation is created for each key", created, created[:1] * 4)
    _expect(
        "all connections find a conversation by its key",
        await opens().find(_AWKWARD_TEXT),
        created[0],
    )
    await opens().remove(created[0])
    _expect("a removed conversation frees its key", await opens().find(_AWKWARD_TEXT), None)
    _expect(
        "a free key can be used again",
        await opens().new(key=_AWKWARD_TEXT),
        await opens().find(_AWKWARD_TEXT),
    )


_CHECKS: Final[tuple[Callable[[OpenStore], Awaitable[None]], ...]] = (
    _is_empty_at_first,
    _stores_nothing_for_a_cancelled_start,
    _resumes_with_a_stored_answer,
    _accepts_only_the_first_answer,
    _stores_text_unchanged,
    _locks_conversations,
    _queues_answers_for_the_lock_holder,
    _claims_a_ready_turn_once,
    _lists_in_pages,
    _forks_and_describes,
    _stores_key_value_entries,
    _appends_a_batch_atomically,
    _finds_conversations_by_key,
)


# Helpers for the checks
# --------------------------------------------------------------------------------------------------


@tool
async def deploy(ctx: ToolContext[None]) -> str:
    """Deploy."""
    return f"deployed: {await ctx.ask(Question.boolean('sure', 'Deploy?'))}"


def _agent(store: ConversationStore) -> Agent:
    return Agent(
        ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}]),
        tools=[deploy],
        store=store,
    )


async def _start_waiting_turn(opens: OpenStore) -> tuple[str, str]:
    """Start a turn that waits for an answer. Return its conversation and the id of the question."""
    result = await _agent(opens()).run(_AWKWARD_TEXT)
    pending = [question.id for question in await opens().pending(result.conversation)]
    _expect(
        "an open question is visible to other connections",
        pending,
        [question.id for question in result.pending],
    )
    return result.conversation, pending[0]


async def _release(locked: LockedConversation) -> None:
    await locked.__aexit__(None, None, None)


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(
            f"The store does not meet this requirement: {what}. Expected {expected!r}, found"
            f" {found!r}."
        )


async def _expect_error(
    what: str, expected: type[Exception], work: Callable[[], Awaitable[object]]
) -> None:
    try:
        done = await work()
    except expected:
        return
    raise AssertionError(
        f"The store does not meet this requirement: {what}. Expected {expected.__name__}, found"
        f" {done!r}."
    )
