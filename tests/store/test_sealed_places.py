"""A store elsewhere, on disk or in a database, that is sealed because its user says so; and what seals do when conversations move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import midturn as mt
from midturn.errors import NeedsAdoption
from midturn.store.file_store import FileStore
from midturn.store.moving import Copying
from midturn.store.opening import open_store
from midturn.store.port import HeldBy
from midturn.store.store import ConversationStore
from midturn.store.submission import HandedOver, Submission
from midturn.store.workspace import Workspace
from support.loops import in_a_loop

Open = Callable[..., ConversationStore]
"""Opens the same place again; `sealed=False` is what a program does that does not know of it."""


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(params=["files", pytest.param("database", marks=pytest.mark.real("PostgreSQL"))])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    place = tmp_path / "elsewhere" if request.param == "files" else request.getfixturevalue("url")

    def opened(*, sealed: bool = True) -> ConversationStore:
        return open_store(place, sealed=sealed)

    return opened


@mt.tool
async def ship(ctx: mt.ToolContext) -> str:
    """Ship it."""
    first = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    return f"{first} {await ctx.ask(mt.Question.boolean('really', 'Really?'))}"


def _agent(store: ConversationStore) -> mt.Agent:
    model = mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[ship], store=store)


async def _verdicts(store: ConversationStore, conversation: str) -> list[str] | None:
    found = await store.port.verdicts(conversation)
    return None if found is None else list(found)


async def _asked(store: ConversationStore) -> mt.OpenQuestion:
    return (await _agent(store).run("Ship it.")).pending[0]


async def _ended(store: ConversationStore, conversation: str) -> str | None:
    """Answer what is asked until the turn is over."""
    while True:
        for question in await store.pending(conversation):
            await store.answer(question.id, True)
        result = await _agent(store).resume(conversation)
        if not result.pending:
            return result.text


async def _is_foreign(store: ConversationStore, conversation: str) -> bool:
    return (await store.port.look(conversation)).turn.needs_adoption


@in_a_loop
async def test_what_is_begun_and_decided_there_counts_there(again: Open) -> None:
    store = again()
    question = await _asked(store)
    await again().answer(question.id, True)
    assert await again().ready() == [question.conversation]
    assert await _ended(store, question.conversation) == "Done."
    assert await _verdicts(again(), question.conversation) == ["sealed"]
    assert await _verdicts(again(sealed=False), question.conversation) is None


@in_a_loop
async def test_nothing_runs_of_what_a_program_wrote_that_does_not_seal(again: Open) -> None:
    question = await _asked(again(sealed=False))
    await again(sealed=False).answer(question.id, True)
    store = again()

    assert await _is_foreign(store, question.conversation)
    assert list(await store.claim()) == []
    assert await store.ready() == []
    with pytest.raises(NeedsAdoption):
        await _agent(store).resume(question.conversation)
    assert await _verdicts(store, question.conversation) == ["unsealed"]

    await store.port.adopt(question.conversation)
    assert not await _is_foreign(store, question.conversation)
    assert await store.pending() == []  # the answer was not given here, and its question is asked again
    asked = await _agent(store).resume(question.conversation)
    assert [pending.question.text for pending in asked.pending] == ["Sure?"]
    assert await _ended(store, question.conversation) == "Done."
    assert await _verdicts(store, question.conversation) == ["sealed"]


@in_a_loop
async def test_an_answer_of_a_program_that_does_not_seal_is_not_taken(again: Open) -> None:
    question = await _asked(again())
    await again(sealed=False).answer(question.id, True)
    assert await _is_foreign(again(), question.conversation)
    assert await again().ready() == []


@in_a_loop
async def test_an_answer_that_was_not_handed_over_here_is_dropped_and_keeps_nobody_out(again: Open) -> None:
    store = again()
    question = await _asked(store)
    event_id = question.request.event_id
    async with await store.open(question.conversation) as journal:
        held = await again(sealed=False).port.look(question.conversation)
        assert isinstance(held, HeldBy)
        planted = HandedOver(event_id=event_id, at="2026-11-21T10:00:00.000000Z", submission=Submission(value=True, user="mallory"))
        assert await again(sealed=False).port.hand_over(held, planted)
        assert await journal.answers.collect() == ()

        ours = HandedOver(event_id=event_id, at="2026-11-21T10:00:01.000000Z", submission=Submission(value=True, user="ada"))
        assert await again().port.hand_over(held, ours)
        assert [handed.submission.user for handed in await journal.answers.collect()] == ["ada"]


@in_a_loop
async def test_a_copy_of_what_held_is_sealed_and_of_anything_else_is_not(again: Open) -> None:
    store = again()
    ours, theirs = (await _asked(store)).conversation, (await _asked(again(sealed=False))).conversation
    await _ended(store, ours)
    await _ended(again(sealed=False), theirs)
    assert await _verdicts(store, await store.fork(ours)) == ["sealed"]
    assert await _verdicts(store, await store.fork(theirs)) == ["unsealed"]


@in_a_loop
async def test_a_waiting_turn_that_moves_to_another_sealed_store_goes_on_there(again: Open, tmp_path: Path) -> None:
    workspace = FileStore(Workspace.make(tmp_path).conversations)
    question = await _asked(workspace)
    await workspace.answer(question.id, True)
    store = again()

    copied = await Copying(workspace, store).copy(question.conversation)
    assert (copied.id, copied.fate) == (question.conversation, "copied")
    assert (await Copying(workspace, store).copy(question.conversation)).fate == "was there"
    assert await _verdicts(store, copied.id) == ["sealed"]
    assert await _ended(store, copied.id) == "Done."

    await workspace.remove(copied.id)
    assert (await Copying(store, workspace).copy(copied.id)).fate == "copied"
    assert await _verdicts(workspace, copied.id) == ["sealed"]


@in_a_loop
async def test_a_waiting_turn_from_an_unsealed_store_is_adopted_first(again: Open, tmp_path: Path) -> None:
    source = FileStore(tmp_path / "unsealed")
    question = await _asked(source)
    store = again()
    copied = await Copying(source, store).copy(question.conversation)
    assert await _is_foreign(store, copied.id)
    with pytest.raises(NeedsAdoption):
        await _agent(store).resume(copied.id)


@pytest.mark.real("PostgreSQL")
@in_a_loop
async def test_a_row_that_was_changed_in_the_database_is_noticed(url: str) -> None:
    store = open_store(url, sealed=True)
    question = await _asked(store)
    server, schema = url.split("&midturn_schema=")
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        changed = f"update {schema}.event set line = convert_to(replace(convert_from(line, 'utf8'), 'Ship it', 'Drop it'), 'utf8')"
        await connection.execute(changed.encode())
    assert await _is_foreign(store, question.conversation)
    assert await _verdicts(store, question.conversation) == ["changed"]


@pytest.mark.real("PostgreSQL")
@in_a_loop
async def test_what_a_database_held_before_it_was_adopted_is_kept(url: str) -> None:
    question = await _asked(open_store(url))
    store = open_store(url, sealed=True)
    before = await store.port.lines(question.conversation)
    await store.port.adopt(question.conversation)
    server, schema = url.split("&midturn_schema=")
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        rows = await (await connection.execute(f"select line from {schema}.adopted order by position".encode())).fetchall()
    assert [line for (line,) in rows] == before
