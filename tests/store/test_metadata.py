"""What a conversation is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.store.store import open_store
from support.stored import finished, keep


def test_a_change_keeps_everything_else_keys_of_other_versions_included(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    path = store.path(kept) / "metadata.json"
    path.write_text(json.dumps({"title": "Old", "created_at": "then", "colour": {"r": 1}}))

    store.rename(kept, title="New", labels=("a", "b"))

    assert json.loads(path.read_text()) == {"title": "New", "created_at": "then", "labels": ["a", "b"], "colour": {"r": 1}}
    assert store.read(kept).metadata.labels == ("a", "b")


def test_a_file_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    path = store.path(kept) / "metadata.json"
    path.write_text("{")

    with pytest.raises(StoreError, match="Mend or remove the file first"):
        store.rename(kept, title="New")

    assert path.read_text() == "{"


def test_a_conversation_without_metadata_can_be_named(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    (store.path(kept) / "metadata.json").unlink()
    assert store.read(kept).title == "Hello"

    store.rename(kept, title="Named")

    assert store.read(kept).title == "Named"


def test_metadata_that_a_loss_of_power_emptied_is_no_problem(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    (store.path(kept) / "metadata.json").write_bytes(b"")

    assert store.read(kept).problems == ()
    assert store.read(kept).title == "Hello"


def test_the_name_of_the_directory_does_not_change_with_the_title(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished(), "first words")

    store.rename(kept, title="Another")

    assert store.path(kept).name == f"{kept}-first-words"


def test_a_person_can_read_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished(), "Ünïcode")

    assert '\n  "title": "Ünïcode",\n' in (store.path(kept) / "metadata.json").read_text()
