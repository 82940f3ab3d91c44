"""The inquirer in synchronous code and in threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

import midturn as mt
from midturn.stores.store import ConversationStore

CONFIRM = mt.Question.boolean("confirm", "Sure?")


def deploy(call: mt.InquirerCall) -> str:
    """Ask from a synchronous function."""
    if not call.ask_sync(CONFIRM):
        raise mt.Rejected("Not deployed.")
    return "Deployed."


def test_turn_block_without_an_event_loop(store: ConversationStore) -> None:
    conversation = store.new_sync("Ship it.")
    inquirer = mt.Inquirer(store, conversation)
    with pytest.raises(mt.Suspended) as raised, inquirer.turn_sync("Ship it."):
        inquirer.run_sync("deploy", "call_1", {}, deploy)
    store.answer_sync(raised.value.pending[0].id, value=True)
    with inquirer.turn_sync("Ship it."):
        assert inquirer.run_sync("deploy", "call_1", {}, deploy) == "Deployed."
        assert (
            inquirer.run_sync("deploy", "call_1", {"again": True}, lambda _: "Again.") == "Again."
        )


def test_call_block_without_an_event_loop(store: ConversationStore) -> None:
    inquirer = mt.Inquirer(store, store.new_sync(), mt.ScriptedPrompter({"deploy.confirm": True}))
    with inquirer.turn_sync("Ship it."), inquirer.call_sync("deploy", "call_1", {}) as call:
        assert call.ask_sync(CONFIRM) is True
        call.finish("Deployed.")
    with inquirer.turn_sync("Ship it again."), inquirer.call_sync("deploy", "call_2") as call:
        call.finish("Deployed.")


def test_threads_make_calls_of_the_same_turn_at_once(store: ConversationStore) -> None:
    """Frameworks run synchronous tools in threads."""
    inquirer = mt.Inquirer(
        store, store.new_sync(), mt.ScriptedPrompter({"deploy.confirm": [True, True, True]})
    )
    contents: list[str] = []

    def call(id: str) -> None:
        contents.append(inquirer.run_sync("deploy", id, {}, deploy))

    with inquirer.turn_sync("Ship it."):
        threads = [threading.Thread(target=call, args=(str(number),)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert contents == ["Deployed."] * 3


def test_sync_methods_in_an_event_loop_name_the_async_ones(store: ConversationStore) -> None:
    async def scene() -> None:
        inquirer = mt.Inquirer(store, await store.new())
        with pytest.raises(RuntimeError, match=r"async with inquirer\.turn"), inquirer.turn_sync():
            pass
        with (
            pytest.raises(RuntimeError, match=r"async with inquirer\.call"),
            inquirer.call_sync("deploy", "1"),
        ):
            pass

    asyncio.run(scene())


def test_permission_and_abandoned_calls_without_an_event_loop(store: ConversationStore) -> None:
    conversation = store.new_sync()
    with (
        pytest.raises(mt.Suspended) as waiting,
        (first := mt.Inquirer(store, conversation)).turn_sync("Ship it."),
    ):
        first.run_sync("deploy", "call_1", {}, lambda _: "Deployed.", permission=True)
    assert [question.kind for question in waiting.value.pending] == ["run"]
    again = mt.Inquirer(store, conversation)
    with again.turn_sync("Ship it.", calls_wait=True):
        again.give_up_unmade_sync("The program made another call.")
    assert store.pending_sync() == []
