"""Conversations that are found by a key of the caller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from midturn.errors import StoreError
from midturn.stores.memory_conversations import MemoryConversations
from midturn.stores.opening import open_store
from midturn.stores.port import StorePort
from midturn.stores.store import ConversationStore
from support.processes import KillableProgram

KEY = "agui:ada:thread/../1\x00 \U0001d11e"


def test_second_new_with_a_key_returns_the_same_conversation(store: ConversationStore) -> None:
    first = store.new_sync("Ship it", key=KEY)

    assert store.new_sync("Another title", key=KEY) == first
    assert store.find_sync(KEY) == first
    assert store.new_sync(key="agui:ben:1") != first
    assert store.read_sync(first).title == "Ship it"


def test_conversation_without_a_key_is_new_each_time(store: ConversationStore) -> None:
    assert store.new_sync() != store.new_sync()
    assert store.find_sync(KEY) is None


def test_removed_conversation_frees_its_key(store: ConversationStore) -> None:
    first, other = store.new_sync(key=KEY), store.new_sync(key="other")

    store.remove_sync(first)

    assert store.find_sync(KEY) is None
    second = store.new_sync(key=KEY)
    assert second != first
    assert store.find_sync(KEY) == second
    assert store.find_sync("other") == other


def test_fork_does_not_have_the_key(store: ConversationStore) -> None:
    first = store.new_sync(key=KEY)

    store.remove_sync(store.fork_sync(first))

    assert store.find_sync(KEY) == first


def test_simultaneous_calls_create_one_conversation(store: ConversationStore) -> None:
    async def create() -> list[str]:
        return await asyncio.gather(*(store.new(key=KEY) for _ in range(20)))

    assert len(set(asyncio.run(create()))) == 1
    assert len(asyncio.run(store.port.ids())) == 1


@pytest.mark.parametrize("key", ["", "x" * 1_001, "\ud800"])
def test_invalid_key_is_refused(store: ConversationStore, key: str) -> None:
    with pytest.raises(ValueError, match="`key`"):
        store.new_sync(key=key)
    with pytest.raises(ValueError, match="`key`"):
        store.find_sync(key)
    assert asyncio.run(store.port.ids()) == []


def test_key_that_is_not_text_is_refused(store: ConversationStore) -> None:
    number: Any = 1
    with pytest.raises(TypeError, match="`key` must be a string"):
        store.new_sync(key=number)


def test_port_without_keys_gives_a_clear_error() -> None:
    class OlderPort(MemoryConversations):
        """A port written before keys existed."""

        find_key = StorePort.find_key
        assign_key = StorePort.assign_key

    class Delegating:
        """A port that does not inherit from the protocol."""

        def __getattr__(self, name: str) -> Any:
            if name in ("find_key", "assign_key"):
                raise AttributeError(name)
            return getattr(MemoryConversations(), name)

    without: Any = Delegating()
    for port in (OlderPort(), without):
        store = ConversationStore(port)
        assert store.new_sync()
        with pytest.raises(StoreError, match="does not support keys"):
            store.new_sync(key=KEY)
        with pytest.raises(StoreError, match="does not support keys"):
            store.find_sync(KEY)


def test_key_of_a_conversation_that_an_older_version_removed_is_free(tmp_path: Path) -> None:
    """An older version removes the directory and leaves the entry in the index of keys."""
    store = open_store(tmp_path)
    first = store.new_sync(key=KEY)
    entry = next((tmp_path / "keys").iterdir())
    content = entry.read_bytes()
    store.remove_sync(first)
    entry.write_bytes(content)

    assert store.find_sync(KEY) is None
    assert store.find_sync(KEY) is None
    second = store.new_sync(key=KEY)
    assert (second != first, open_store(tmp_path).find_sync(KEY)) == (True, second)


def test_files_of_keys_do_not_contain_the_key(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = store.new_sync(key="agui:ada:secret-thread")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert all(b"secret-thread" not in path.read_bytes() for path in files)
    assert all("secret-thread" not in str(path) for path in files)
    store.remove_sync(first)
    assert list((tmp_path / "keys").iterdir()) == []


IMPORTS = """
import sys
from midturn.stores.opening import open_store
"""
CREATOR = """
store = open_store(sys.argv[1])
for number in range(100_000):
    print(number, store.new_sync(key=f"key {number}"), flush=True)
"""


def test_killed_process_leaves_no_lost_key(tmp_path: Path) -> None:
    """Every acknowledged key is found, and every other key can be created."""
    program = KillableProgram(IMPORTS, CREATOR)
    acknowledged: dict[str, str] = {}
    for _ in range(4):
        first = program.begin(tmp_path)
        for line in [first, *program.kill()]:
            number, _, id = line.partition(" ")
            assert acknowledged.setdefault(number, id) == id
    program.end()

    store = open_store(tmp_path)
    for number, id in acknowledged.items():
        assert store.find_sync(f"key {number}") == id
    following = f"key {len(acknowledged)}"
    assert store.new_sync(key=following) == store.find_sync(following)
