"""An answer on its way into a conversation: what `store.answer` was given, and what `answers/` keeps of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, Problem
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply, WentBack
from midturn.record.events import AnsweredBy, Note
from midturn.values.json_value import Json
from midturn.values.text import check_text, check_text_or_none

_YES_OR_NO = frozenset({bool, type(None)})
_WAYS = ("value", "approve", "arguments", "content", "reply", "back", "cancel")


class Submission(Struct, frozen=True, omit_defaults=True):
    """Exactly one of `value`, `approve`, `arguments`, `content`, `reply`, `back` and `cancel` says what the person did.

    `reason` explains a value or a decision, `remember` keeps it for the turn, or names what another
    agent keeps of it; `user` and `via` say who it was and how. `approve=True` may
    come with `arguments` or `content`. `about` is what the person was shown, where that may have changed since.
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
    about: str = ""

    def __post_init__(self) -> None:
        """Take nothing that could not be read back.

        Raises:
            TypeError: Something is not of its type.
        """
        check_text_or_none("reply", self.reply)
        check_text_or_none("reason", self.reason)
        check_text_or_none("user", self.user)
        check_text("via", self.via)
        check_text("about", self.about)
        if self.content is not UNSET:
            check_text("content", self.content)
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
        """Who answered."""
        return AnsweredBy("user", via=self.via, user=self.user)

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
                return Answered(self.value, reason=self.reason, remember=self.remember)  # type: ignore[arg-type]  # it is set: that is why it was chosen
            case "approve":
                return Answered(bool(self.approve), reason=self.reason, remember=self.remember)
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
        """What it is stored under: the first of two with the same key counts."""
        return f"{self.event_id}{APART}{self.name}" if self.name else self.event_id

    @property
    def reply(self) -> Reply:
        """What the person did."""
        return self.submission.as_reply()

    @property
    def about(self) -> str:
        """What the person was shown, where that may have changed since."""
        return self.submission.about

    @property
    def by(self) -> AnsweredBy:
        """Who answered, or noted it."""
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
