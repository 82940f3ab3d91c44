"""A conversation, read. Reading takes no lock, never writes, and loses nothing that can still be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from midturn.record.codec import decode_lines
from midturn.record.events import ChatRequest, Event, OpaqueEvent, VisibleEvent
from midturn.record.open_question import OpenQuestion
from midturn.record.provider_view import provider_view
from midturn.record.window import Window, turns
from midturn.store import jp
from midturn.store.event_file import EVENTS, is_jp
from midturn.store.folder import Folder
from midturn.store.metadata import Metadata, conversation_id, decode_metadata, read_metadata, title
from midturn.store.tail import EventReader, Part
from midturn.turn.pending import pending
from midturn.turn.view import InquiryPair, pairs


class Conversation:
    """The events of a conversation as they were when it was read, and what follows from them.

    `id` is its number, `path` its directory (None where it is in memory), `events` everything that was recorded, oldest first,
    `metadata` what it is called. `problems` says what could not be read, a line each, with file and line number.
    """

    def __init__(
        self,
        id: str,
        events: Sequence[Event],
        *,
        path: Path | None = None,
        metadata: Metadata | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        """Make one of values; `problems` are those of the files around the events."""
        self.id = id
        self.events: tuple[Event, ...] = tuple(events)
        self.path = path
        self.metadata = metadata or Metadata()
        self.problems: tuple[str, ...] = (*problems_of(self.events), *problems)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Conversation:
        """Read the conversation in the directory `path`; one that `jp` recorded (`events.json`) is read as well.

        Args:
            path: The conversation's directory.

        Raises:
            StoreError: There is no conversation, or it cannot be read; the message names the file.
        """
        directory = Path(os.path.realpath(path))
        if is_jp(directory):
            return cls._open_jp(directory)
        with Folder.at(directory) as folder:
            metadata, problem = read_metadata(folder)
            with EventReader(folder) as reader:
                recorded = reader.stream()
        problems = (*recorded.torn, *([problem] if problem else []))
        return cls(_id_of(directory), recorded.events, path=directory, metadata=metadata, problems=problems)

    @classmethod
    def _open_jp(cls, directory: Path) -> Conversation:
        legacy = jp.read_jp(directory)
        events = decode_lines(legacy.lines, str(directory / EVENTS))
        try:
            metadata, problem = decode_metadata(msgspec.json.encode(legacy.metadata)), ""
        except ValueError as error:
            metadata, problem = Metadata(), f"{directory / jp.METADATA}: {error}. The conversation is read without it."
        return cls(_id_of(directory), events, path=directory, metadata=metadata, problems=[problem] if problem else [])

    @property
    def title(self) -> str:
        """What the conversation is called; without a title, what was asked first."""
        return self.metadata.title or next((title(event.content) for event in self.events if isinstance(event, ChatRequest)), "")

    @cached_property
    def turns(self) -> tuple[Window, ...]:
        """The events turn by turn; only the last turn can be `open`."""
        return tuple(turns(self.events))

    def pairs(self) -> list[InquiryPair]:
        """Return every inquiry with its response (None where it has none)."""
        return pairs(self.events)

    def provider_view(self) -> list[VisibleEvent]:
        """Return what a model sees: each call with exactly one result, nothing of inquiries and approvals."""
        return provider_view(self.events)

    def pending(self) -> list[OpenQuestion]:
        """Return what the open turn waits for, in the order in which it was asked."""
        return pending(self.turns[-1].events, self.id) if self.turns else []

    def finished_length(self, limit: int | None = None) -> int:
        """Count the events of the finished turns, or of the first `limit` of them."""
        finished = [window for window in self.turns if not window.open]
        return sum(len(window.events) for window in finished[:limit])


def turns_in(parts: Iterable[Part]) -> Iterator[Window]:
    """Yield the turns of a conversation that is read part by part: no more is kept of it than a part, and a turn that is not whole yet."""
    left: Sequence[Event] = ()
    for part in parts:
        events = [*left, *part.decode()]
        whole = turns(events)
        if part.following is None:
            yield from whole
            return
        yield from whole[:-1]
        left = whole[-1].events if whole else events


def problems_of(events: Iterable[Event]) -> tuple[str, ...]:
    """Say what could not be read of events."""
    return tuple(event.problem for event in events if isinstance(event, OpaqueEvent) and event.problem)


def _id_of(directory: Path) -> str:
    return conversation_id(directory.name) or directory.name
