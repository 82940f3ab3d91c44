"""Submitted answers, and answers that are queued in `answers/` for the process that has the lock.

Votes and notes have their own files: `<event id>.<note>.json`.

The process with the lock polls the queue and records the answers. An answer is removed when it is
recorded, or when its question is closed.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.clock import pause
from midturn.errors import AnswerError, Problem
from midturn.events.types import AnsweredBy, Note
from midturn.question.json_value import Json, JsonObject
from midturn.question.reply import (
    SCOPES,
    Answered,
    Edited,
    EndedTurn,
    Replied,
    Reply,
    Scope,
    WentBack,
)
from midturn.question.text import canonical_name, check_text, check_text_or_none, sha256
from midturn.stores.folder import Folder, reporting_os_errors

_YES_OR_NO = frozenset({bool, type(None)})
_WAYS = ("value", "approve", "arguments", "content", "reply", "back", "cancel")


ANSWERERS: Final = ("user", "agent", "owner")
"""Possible values of `answered_by`: a person, a program on its own behalf, or the owner of a
store, who can only end turns.
"""


class SubmittedAnswer(Struct, frozen=True, omit_defaults=True):
    """A submitted answer. Exactly one of `value`, `approve`, `arguments`, `content`, `reply`,
    `back` and `cancel` is given.

    `approve=True` may come with `arguments` or `content`. `reason` explains a value or a
    decision. `remember` keeps the decision for the turn, or names a permission for another agent
    to remember. `scope` makes the answer apply to later questions or calls, and `rule` selects
    these calls. `user` and `via` are the user and the interface, `login` is the user's name in
    this interface, and `answered_by` is `user` for a person or `agent` for a program. `digest` is
    the digest of the subject that the user saw (see `OpenQuestion.digest`).
    """

    value: Json | UnsetType = UNSET
    approve: bool | None = None
    arguments: Json | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reply: str | None = None
    back: bool = False
    cancel: bool = False
    reason: str | None = None
    remember: bool | str = False
    user: str | None = None
    via: str = "api"
    digest: str = msgspec.field(name="about", default="")
    login: str | None = None
    answered_by: str = "user"
    scope: Scope | None = None
    rule: JsonObject | None = None

    def __post_init__(self) -> None:
        """Check the types and the names.

        Raises:
            TypeError: A field has the wrong type.
            ValueError: `user` is not a valid name.
        """
        check_text_or_none("reply", self.reply)
        check_text_or_none("reason", self.reason)
        check_text_or_none("user", self.user)
        if self.user:
            canonical_name(self.user)
        if self.answered_by not in ANSWERERS:
            raise ValueError(
                f"`answered_by` takes {' or '.join(map(repr, ANSWERERS))}, not"
                f" {self.answered_by!r:.80}."
            )
        check_text("via", self.via)
        check_text("digest", self.digest)
        if self.content is not UNSET:
            check_text("content", self.content)
        if self.scope not in (None, *SCOPES):
            raise TypeError(
                f"`scope` takes {', '.join(map(repr, SCOPES))} or None, not {self.scope!r:.80}."
            )
        if not _YES_OR_NO.issuperset((type(self.approve), type(self.back), type(self.cancel))):
            self._check_booleans()
        if not isinstance(self.remember, bool):
            check_text("remember", self.remember)

    def _check_booleans(self) -> None:
        for name in ("approve", "back", "cancel"):
            given = getattr(self, name)
            if type(given) not in _YES_OR_NO:
                raise TypeError(f"`{name}` takes True or False, not {given!r:.80}.")

    @property
    def by(self) -> AnsweredBy:
        """The responder and the interface."""
        return AnsweredBy(self.answered_by, via=self.via, user=self.user, login=self.login)

    def as_reply(self) -> Reply:
        """Return the answer as a prompter's reply.

        Raises:
            AnswerError: No answer, or more than one kind of answer, is given.
        """
        edited = (
            self.arguments is not UNSET or self.content is not UNSET
        ) and self.approve is not False
        done = (
            self.value is not UNSET,
            self.approve is not None and not edited,
            self.arguments is not UNSET,
            self.content is not UNSET,
            self.reply is not None,
            self.back,
            self.cancel,
        )
        if sum(done) != 1:
            given = [f"`{way}`" for way, is_done in zip(_WAYS, done, strict=True) if is_done]
            ways = "`value`, `approve`, `arguments`, `content`, `reply`, `back` and `cancel`"
            raise AnswerError(
                [
                    Problem(
                        "",
                        f"Pass exactly one of {ways}, not {' and '.join(given) or 'none of them'}.",
                    )
                ]
            )
        return self._reply(_WAYS[done.index(True)])

    def _reply(self, given: str) -> Reply:
        match given:
            case "value":
                return Answered(
                    self.value,  # type: ignore[arg-type]  # set, because it is the given answer
                    reason=self.reason,
                    remember=self.remember,
                    scope=self.scope,
                )
            case "approve":
                standing = (
                    self.scope if self.scope == "conversation" else None
                )  # the other scopes are rules in a configuration
                return Answered(
                    bool(self.approve),
                    reason=self.reason,
                    remember=self.remember,
                    scope=standing,
                    rule=self.rule,
                )
            case "arguments" | "content":
                return Edited(self.arguments if given == "arguments" else self.content)  # type: ignore[arg-type]  # as above
            case "reply":
                return Replied(self.reply or None)
            case "back":
                return WentBack()
            case _:
                return EndedTurn()


class QueuedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A queued answer or note for the process with the lock; `event_id` names the request, `at` is
    the time of submission.

    A request has one answer, but can have several votes and notes, so each of these has a `name`.
    """

    event_id: str
    at: str
    submission: SubmittedAnswer = SubmittedAnswer()
    note: Note | None = None
    name: str = ""

    @property
    def key(self) -> str:
        """The key under which the answer is stored. Of two answers with the same key, the first
        one counts.
        """
        return f"{self.event_id}{APART}{self.name}" if self.name else self.event_id

    @property
    def reply(self) -> Reply:
        """The person's reply."""
        return self.submission.as_reply()

    @property
    def digest(self) -> str:
        """Digest of the subject that the person saw, or an empty string if it is unknown."""
        return self.submission.digest

    @property
    def by(self) -> AnsweredBy:
        """The person who answered, or wrote the note."""
        who = getattr(self.note, "answered_by", None)
        return self.submission.by if self.note is None else who or AnsweredBy("user")


APART: Final = "\x1f"
"""Separator of the two parts of a key; no event id contains it."""


def request_of(key: str) -> str:
    """Return the request of a queued answer or note, given its key."""
    return key.partition(APART)[0]


def oldest_first(handed: Iterable[QueuedAnswer]) -> tuple[QueuedAnswer, ...]:
    """Return queued answers, oldest first, in the same order for every store."""
    return tuple(sorted(handed, key=lambda answer: (answer.at, answer.key)))


ANSWERS = "answers"
_INTERVAL = 0.1  # seconds between two polls of the answer queue
_LOG = logging.getLogger(__name__)
_ASIDE = ".unreadable"
_PLAIN = r"[A-Za-z0-9_-]{1,64}"


class AnswerQueueFolder:
    """The `answers/` of a conversation's directory."""

    def __init__(self, conversation: Folder) -> None:
        self._conversation = conversation

    def put(self, answer: QueuedAnswer) -> bool:
        """Write and sync the file, and only then give it its name.

        Return False if the name exists, which means that an earlier answer is queued.
        """
        name, temporary = _file_name(answer.key), f".{os.urandom(8).hex()}"
        with reporting_os_errors("queue an answer in", self._conversation, ANSWERS):
            self._conversation.make_inside(ANSWERS)
            with self._conversation.inside(ANSWERS) as folder:
                folder.write_new(temporary, msgspec.json.encode(answer) + b"\n")
                try:
                    os.link(
                        temporary,
                        name,
                        src_dir_fd=folder.fd,
                        dst_dir_fd=folder.fd,
                        follow_symlinks=False,
                    )
                    folder.sync()
                except FileExistsError:
                    return False
                finally:
                    folder.remove(temporary)
        return True

    def collect(self) -> tuple[QueuedAnswer, ...]:
        """Read all queued answers. A file that is not an answer is renamed."""
        if not self._conversation.has(ANSWERS):  # no answer was ever queued
            return ()

        with reporting_os_errors("read the answers in", self._conversation, ANSWERS):
            try:
                folder = self._conversation.inside(ANSWERS)
            except FileNotFoundError:  # the conversation is being removed
                return ()
            with folder:
                names = [name for name in folder.names() if name.endswith(".json")]
                found = [answer for name in names if (answer := _read(folder, name))]
        return oldest_first(found)

    def remove(self, key: str) -> None:
        """Remove the file.

        The removal is not synced. If the file reappears after a power cut, its question is
        already closed.
        """
        reporting_errors = reporting_os_errors("remove an answer in", self._conversation, ANSWERS)
        with (
            reporting_errors,
            suppress(FileNotFoundError),
            self._conversation.inside(ANSWERS) as folder,
        ):
            folder.remove(_file_name(key))


class FileAnswerQueue:
    """The answer queue of a locked conversation on disk, polled ten times a second."""

    def __init__(self, answers: AnswerQueueFolder) -> None:
        self._answers = answers

    async def collect(self) -> tuple[QueuedAnswer, ...]:
        """Return all queued answers, oldest first."""
        return self._answers.collect()

    async def changed(self) -> None:
        """Wait until the next poll."""
        await pause(_INTERVAL)

    async def refuse(self, key: str) -> None:
        """Refuse a queued answer."""
        self._answers.remove(key)


def _decoded(text: bytes) -> QueuedAnswer:
    answer = msgspec.json.decode(text, type=QueuedAnswer)
    if answer.note is None:
        answer.submission.as_reply()
    return answer


def _read(folder: Folder, name: str) -> QueuedAnswer | None:
    try:
        answer = _decoded(folder.read(name))
    except FileNotFoundError:  # the answer was collected in the meantime
        return None
    except OSError as error:
        if error.errno not in {
            errno.ELOOP,
            errno.EINVAL,
            errno.EFBIG,
        }:  # the file may be an answer that the system cannot read now
            raise
        return _put_aside(folder, name, error)
    except (ValueError, RecursionError, AnswerError) as error:
        return _put_aside(folder, name, error)
    return answer


def _put_aside(folder: Folder, name: str, error: Exception) -> None:
    """Rename a file that is not an answer, so that its name is free; nothing is deleted."""
    _LOG.warning(
        "%r in %r is not an answer (%r); it is kept as %r",
        name,
        str(folder.path),
        str(error),
        f"{name}{_ASIDE}",
    )
    os.replace(name, f"{name}{_ASIDE}", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _file_name(key: str) -> str:
    """Return the file of an answer, or of a note: `<event id>.json`, `<event id>.<note>.json`.

    IDs that are not plain names, which other programs may have written, are replaced with their
    hash.
    """
    event_id, _, note = key.partition(APART)
    plain = (
        event_id
        if re.fullmatch(_PLAIN, event_id)
        else sha256(event_id.encode("utf-8", "surrogatepass"))
    )
    return f"{plain}.{note}.json" if note else f"{plain}.json"
