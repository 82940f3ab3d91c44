"""Conversation metadata, such as the title."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
from support.stored import finished, keep, path_of


def test_change_keeps_unknown_keys(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    path = path_of(store, kept) / "metadata.json"
    path.write_text(json.dumps({"title": "Old", "created_at": "then", "colour": {"r": 1}}))

    drive(store.port.describe(kept, title="New", labels=("a", "b")))

    assert json.loads(path.read_text()) == {
        "title": "New",
        "created_at": "then",
        "labels": ["a", "b"],
        "colour": {"r": 1},
    }
    assert store.read_sync(kept).metadata.labels == ("a", "b")


def test_a_file_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    path = path_of(store, kept) / "metadata.json"
    path.write_text("{")

    with pytest.raises(StoreError, match="Repair or remove the file first"):
        drive(store.port.describe(kept, title="New"))

    assert path.read_text() == "{"


def test_a_conversation_without_metadata_can_be_named(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    (path_of(store, kept) / "metadata.json").unlink()
    assert store.read_sync(kept).title == "Hello"

    drive(store.port.describe(kept, title="Named"))

    assert store.read_sync(kept).title == "Named"


def test_metadata_emptied_by_a_power_failure_is_no_problem(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished())
    (path_of(store, kept) / "metadata.json").write_bytes(b"")

    assert store.read_sync(kept).problems == ()
    assert store.read_sync(kept).title == "Hello"


def test_the_name_of_the_directory_does_not_change_with_the_title(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished(), "first words")

    drive(store.port.describe(kept, title="Another"))

    assert path_of(store, kept).name == f"{kept}-first-words"


def test_a_person_can_read_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished(), "Ünïcode")

    assert '\n  "title": "Ünïcode",\n' in (path_of(store, kept) / "metadata.json").read_text()
