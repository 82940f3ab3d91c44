"""Files and directories that only their owner can access. Links are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.security.private_files import ensure_private
from midturn.stores.conversation import Conversation
from midturn.stores.folder import Folder
from midturn.stores.opening import FileStore, open_store
from midturn.stores.queued_answer import AnswerQueueFolder, QueuedAnswer, SubmittedAnswer
from midturn.stores.sync_forms import drive
from midturn.stores.workspace import Workspace, choose
from support.stored import asking, hold, keep, path_of, release, reopen

ANSWER = QueuedAnswer(
    event_id="e4", at="2026-11-21T10:00:00Z", submission=SubmittedAnswer(value=True)
)


@pytest.fixture(params=[0o022, 0o000, 0o277], ids=["umask 022", "umask 000", "umask 277"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_everything_is_private_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    workspace = Workspace.make(tmp_path / "project")
    workspace.found()
    store = FileStore(workspace.conversations)
    journal = hold(store, asking()[0])
    with Folder.at(path_of(store, journal.conversation)) as folder:
        AnswerQueueFolder(folder).put(ANSWER)
    release(journal)
    with (path_of(store, journal.conversation) / "events.jsonl").open("ab") as file:
        file.write(b"torn")
    release(reopen(store, journal.conversation))
    drive(store.port.describe(journal.conversation, title="Another"))
    choose(workspace.conversations, journal.conversation)

    everything = [
        folder
        for home in (workspace.home, tmp_path / "data" / "midturn")
        for folder in (home, *home.rglob("*"))
    ]
    assert {path.name.split("-")[0] for path in everything} >= {
        "lock",
        "answers",
        "events.torn",
        "metadata.json",
        "current",
        ".gitignore",
    }
    for path in everything:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.usefixtures("umask")
def test_missing_parents_are_private_too(tmp_path: Path) -> None:
    ensure_private(tmp_path / "a" / "b" / "c")

    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.rglob("*"))] == [0o700] * 3


@pytest.mark.parametrize("name", ["events.jsonl", "lock"])
def test_a_writer_follows_no_link(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    store = open_store(tmp_path / "conversations")
    journal = hold(store, asking()[0])
    release(journal)
    (path_of(store, journal.conversation) / name).unlink()
    (path_of(store, journal.conversation) / name).symlink_to(victim)

    with pytest.raises(StoreError, match=rf"{name}: it is a symbolic link"):
        reopen(store, journal.conversation)

    assert victim.read_text() == "precious"


def test_a_reader_follows_no_link(tmp_path: Path) -> None:
    """A cloned repository could link to any file that its user can read."""
    secret = tmp_path / "secret"
    secret.write_text('{"type":"chat_request","content":"key"}\n')
    conversation = tmp_path / "1-a"
    conversation.mkdir()
    (conversation / "events.jsonl").symlink_to(secret)

    with pytest.raises(StoreError, match="links inside the store are not followed"):
        Conversation.open(conversation)


def test_a_conversation_that_is_a_link_does_not_count(tmp_path: Path) -> None:
    store = open_store(tmp_path / "here")
    other = open_store(tmp_path / "elsewhere")
    elsewhere = path_of(other, keep(other, asking()[0]))
    hold(store, asking()[0])
    (tmp_path / "here" / "17-linked").symlink_to(elsewhere)

    assert "17" not in store.ids_sync()


def test_answers_are_not_queued_through_a_link(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder.path / "answers").symlink_to(elsewhere)

    with pytest.raises(StoreError, match="answers"):
        AnswerQueueFolder(folder).put(ANSWER)

    assert list(elsewhere.iterdir()) == []


def test_file_is_replaced_atomically_and_links_are_not_followed(folder: Folder) -> None:
    victim = folder.path / "victim"
    victim.write_text("precious")
    (folder.path / "metadata.json").symlink_to(victim)

    folder.replace("metadata.json", b"{}")

    assert victim.read_text() == "precious"
    assert folder.read("metadata.json") == b"{}"
    assert sorted(folder.names()) == ["metadata.json", "victim"]


def test_failed_replacement_leaves_no_temporary_file(folder: Folder) -> None:
    (folder.path / "metadata.json").mkdir()

    with pytest.raises(IsADirectoryError):
        folder.replace("metadata.json", b"{}")

    assert folder.names() == ["metadata.json"]


def test_new_file_never_replaces_another(folder: Folder) -> None:
    folder.write_new("a", b"first")

    with pytest.raises(FileExistsError):
        folder.write_new("a", b"second")

    assert folder.read("a") == b"first"
