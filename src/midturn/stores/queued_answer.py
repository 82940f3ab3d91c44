"""An answer on its way into a conversation: what it was given as, and what its holder, another process, finds in `answers/`.

A vote or a note has a file of its own beside it: `<event id>.<note>.json`.

The holder of the conversation looks from time to time and records what is in there; with its record, or when its question is closed
otherwise, an answer goes away.
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
from midturn.question.reply import SCOPES, Answered, Edited, EndedTurn, Replied, Reply, Scope, WentBack
from midturn.question.text import canonical_name, check_text, check_text_or_none, sha256
from midturn.stores.folder import Folder, telling

_YES_OR_NO = frozenset({bool, type(None)})
_WAYS = ("value", "approve", "arguments", "content", "reply", "back", "cancel")


ANSWERERS: Final = ("user", "agent", "owner")
"""Who answers from outside: a person, a program for itself, or the owner of a store, who only ends turns."""


class Submission(Struct, frozen=True, omit_defaults=True):
    """Exactly one of `value`, `approve`, `arguments`, `content`, `reply`, `back` and `cancel` says what the person did.

    `reason` explains a value or a decision, `remember` keeps it for the turn, or names what another
    agent keeps of it; `scope` says how far it counts for later questions or calls, and `rule` which calls it covers; `user` and `via` say
    who it was and how, `login` by which name the interface knows them, and `answered_by`
    whether a person (`user`) or a program (`agent`) answers. `approve=True` may
    come with `arguments` or `content`. `digest` is that of
    the subject that the person saw (see `OpenQuestion.digest`).
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
        """Take nothing that could not be read back.

        Raises:
            TypeError: Something is not of its type.
            ValueError: `user` is no name.
        """
        check_text_or_none("reply", self.reply)
        check_text_or_none("reason", self.reason)
        check_text_or_none("user", self.user)
        if self.user:
            canonical_name(self.user)
        if self.answered_by not in ANSWERERS:
            raise ValueError(f"`answered_by` takes {' or '.join(map(repr, ANSWERERS))}, not {self.answered_by!r:.80}.")
        check_text("via", self.via)
        check_text("digest", self.digest)
        if self.content is not UNSET:
            check_text("content", self.content)
        if self.scope not in (None, *SCOPES):
            raise TypeError(f"`scope` takes {', '.join(map(repr, SCOPES))} or None, not {self.scope!r:.80}.")
        if not _YES_OR_NO.issuperset((type(self.approve), type(self.back), type(self.cancel))):
            self._refuse_what_is_no_yes_or_no()
        if not isinstance(self.remember, bool):
            check_text("remember", self.remember)

    def _refuse_what_is_no_yes_or_no(self) -> None:
        for name in ("approve", "back", "cancel"):
            given = getattr(self, name)
            if type(given) not in _YES_OR_NO:
                raise TypeError(f"`{name}` takes True or False, not {given!r:.80}.")

    @property
    def by(self) -> AnsweredBy:
        """The answerer."""
        return AnsweredBy(self.answered_by, via=self.via, user=self.user, login=self.login)

    def as_reply(self) -> Reply:
        """Return what the person did, as a prompter would.

        Raises:
            AnswerError: Not exactly one thing was done.
        """
        edited = (self.arguments is not UNSET or self.content is not UNSET) and self.approve is not False
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
            raise AnswerError([Problem("", f"Give exactly one of {ways}, not {' and '.join(given) or 'none of them'}.")])
        return self._reply(_WAYS[done.index(True)])

    def _reply(self, given: str) -> Reply:
        match given:
            case "value":
                return Answered(self.value, reason=self.reason, remember=self.remember, scope=self.scope)  # type: ignore[arg-type]  # it is set: that is why it was chosen
            case "approve":
                standing = self.scope if self.scope == "conversation" else None  # the other scopes are rules in a configuration
                return Answered(bool(self.approve), reason=self.reason, remember=self.remember, scope=standing, rule=self.rule)
            case "arguments" | "content":
                return Edited(self.arguments if given == "arguments" else self.content)  # type: ignore[arg-type]  # as above
            case "reply":
                return Replied(self.reply or None)
            case "back":
                return WentBack()
            case _:
                return EndedTurn()


class HandedOver(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A submission for the holder of the conversation, or a note; `event_id` names the request, `at` is when it was given.

    There is one answer to a request. Votes and notes may be several, so each has a `name`.
    """

    event_id: str
    at: str
    submission: Submission = Submission()
    note: Note | None = None
    name: str = ""

    @property
    def key(self) -> str:
        """The name that it is stored under: the first of two with the same key counts."""
        return f"{self.event_id}{APART}{self.name}" if self.name else self.event_id

    @property
    def reply(self) -> Reply:
        """The person's reply."""
        return self.submission.as_reply()

    @property
    def digest(self) -> str:
        """Digest of the subject that the person saw; empty if unknown."""
        return self.submission.digest

    @property
    def by(self) -> AnsweredBy:
        """The person who answered, or noted it."""
        who = getattr(self.note, "answered_by", None)
        return self.submission.by if self.note is None else who or AnsweredBy("user")


APART: Final = "\x1f"
"""Stands between the two parts of a key: no event id has it."""


def request_of(key: str) -> str:
    """Return the request that something which was handed over is about, by its key."""
    return key.partition(APART)[0]


def oldest_first(handed: Iterable[HandedOver]) -> tuple[HandedOver, ...]:
    """Return what was handed over in the order in which it counts, the same in every store."""
    return tuple(sorted(handed, key=lambda answer: (answer.at, answer.key)))


ANSWERS = "answers"
_INTERVAL = 0.1  # seconds between two looks
_LOG = logging.getLogger(__name__)
_ASIDE = ".unreadable"
_PLAIN = r"[A-Za-z0-9_-]{1,64}"


class HandoverFolder:
    """The `answers/` of a conversation's directory."""

    def __init__(self, conversation: Folder) -> None:
        self._conversation = conversation

    def put(self, answer: HandedOver) -> bool:
        """Write, sync, and only then give it its name: a name that exists belongs to an earlier answer (False)."""
        name, temporary = _file_name(answer.key), f".{os.urandom(8).hex()}"
        with telling("hand an answer over in", self._conversation, ANSWERS):
            self._conversation.make_inside(ANSWERS)
            with self._conversation.inside(ANSWERS) as folder:
                folder.write_new(temporary, msgspec.json.encode(answer) + b"\n")
                try:
                    os.link(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
                    folder.sync()
                except FileExistsError:
                    return False
                finally:
                    folder.remove(temporary)
        return True

    def collect(self) -> tuple[HandedOver, ...]:
        """Read all of them; a file that is not an answer is put aside under another name."""
        if not self._conversation.has(ANSWERS):  # as usual: nothing was handed over
            return ()

        with telling("read the answers in", self._conversation, ANSWERS):
            try:
                folder = self._conversation.inside(ANSWERS)
            except FileNotFoundError:  # the conversation is being removed
                return ()
            with folder:
                names = [name for name in folder.names() if name.endswith(".json")]
                found = [answer for name in names if (answer := _read(folder, name))]
        return oldest_first(found)

    def remove(self, key: str) -> None:
        """Remove the file. Not synced: an answer that comes back after a loss of power finds its question closed."""
        telling_where = telling("remove an answer in", self._conversation, ANSWERS)
        with telling_where, suppress(FileNotFoundError), self._conversation.inside(ANSWERS) as folder:
            folder.remove(_file_name(key))


class FileFeed:
    """Answers handed over to the holder of a conversation on disk, looked for ten times a second."""

    def __init__(self, answers: HandoverFolder) -> None:
        self._answers = answers

    async def collect(self) -> tuple[HandedOver, ...]:
        """Return all that are there, oldest first."""
        return self._answers.collect()

    async def changed(self) -> None:
        """Return when it is time to look again."""
        await pause(_INTERVAL)

    async def refuse(self, key: str) -> None:
        """Turn one down."""
        self._answers.remove(key)


def _decoded(text: bytes) -> HandedOver:
    answer = msgspec.json.decode(text, type=HandedOver)
    if answer.note is None:
        answer.submission.as_reply()
    return answer


def _read(folder: Folder, name: str) -> HandedOver | None:
    try:
        answer = _decoded(folder.read(name))
    except FileNotFoundError:  # taken meanwhile
        return None
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.EINVAL, errno.EFBIG}:  # it may be an answer; the system is in trouble
            raise
        return _put_aside(folder, name, error)
    except (ValueError, RecursionError, AnswerError) as error:
        return _put_aside(folder, name, error)
    return answer


def _put_aside(folder: Folder, name: str, error: Exception) -> None:
    """Make room for an answer where something else lies; nothing is thrown away."""
    _LOG.warning("%r in %r is not an answer (%r); it is kept as %r", name, str(folder.path), str(error), f"{name}{_ASIDE}")
    os.replace(name, f"{name}{_ASIDE}", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _file_name(key: str) -> str:
    """Return the file of an answer, or of a note: `<event id>.json`, `<event id>.<note>.json`.

    Ids that are not plain names (a stream may come from anywhere) are written as their hash.
    """
    event_id, _, note = key.partition(APART)
    plain = event_id if re.fullmatch(_PLAIN, event_id) else sha256(event_id.encode("utf-8", "surrogatepass"))
    return f"{plain}.{note}.json" if note else f"{plain}.json"
