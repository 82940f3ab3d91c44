"""Exceptions that midturn raises on purpose.

```
MidturnError
├── ConfigError        a configuration value, file or flag is wrong
├── QuestionError      a question or a form breaks a rule; `problems` lists all of them
├── AnswerError        a value does not fit its question; `problems` lists why
│   └── DigestMismatch the answer does not name what is decided on now
├── NotOpen            the question is not (or no longer) open
│   ├── NoSuchQuestion there never was a question of that id
│   └── DeadlinePassed its deadline has passed: no answer counts any more
├── AlreadyAnswered    another answer came first
├── NotAnswered        in a tool: the question has no answer, and why
├── NotAllowed         this user may not answer the question; it stays open
├── StoreError         a conversation cannot be read or written
│   ├── TooLarge       what was to be recorded at once is over the limit
│   ├── TurnOpen       the last turn of the conversation waits to be continued
│   ├── StoreLocked    another process writes it
│   └── Busy           many write it in quick succession; try again
├── ModelError         a model cannot be reached or does not do what was asked
│   ├── ContextTooLong the conversation does not fit into the model
│   └── ScriptError    a scripted model has nothing (more) to say, or was asked something else: the turn ends
├── Suspended          no one is there to answer now; `pending` says what is open
├── PersonNeeded       only a person may do this, and this process was started by a tool
├── TerminalGone       the person who was asked went away without a word: nothing is recorded, the turn stays open
└── CallEnded          a call of an `Inquirer` is over without the answer; `content` is its result
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from opcode import opmap
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, cast


class Problem(NamedTuple):
    """One broken rule: where it is (a JSON pointer, `""` for the whole document) and what to do about it.

    Args:
        pointer: Where, as a JSON pointer.
        message: What is wrong, and what to do.
    """

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class MidturnError(Exception):
    """The root: every error has a message for a person, fields for a program, and `to_json()`."""

    def to_json(self) -> dict[str, Any]:
        """Return what went wrong as JSON: `error` (the class), `message`, and the fields of the class that have one."""
        fields = {name: _as_json(value) for name, value in vars(self).items() if not name.startswith("_")}
        return {"error": type(self).__name__, "message": str(self), **fields}


def _as_json(value: object) -> object:
    """Return a field's value as JSON."""
    to_json: Callable[[], object] | None = getattr(value, "to_json", None)
    if to_json is not None:
        return to_json()
    if isinstance(value, tuple) and (names := getattr(cast("object", value), "_fields", None)):
        return {name: _as_json(item) for name, item in zip(names, cast("tuple[object, ...]", value), strict=True)}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in cast("Sequence[object]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class ConfigError(MidturnError):
    """A configuration value, file or flag is wrong; the message says where and what is allowed."""


class DepsMissing(ConfigError):  # noqa: N818  raised to the program as the `ConfigError` that it is
    """A tool wants the dependencies with which its turn was begun, and this run has none. The run ends, and the call stays open."""


class _ProblemsError(MidturnError):
    """An error that lists every problem at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class QuestionError(_ProblemsError):
    """A question or a form breaks a rule; `problems` says where (JSON pointer) and what to do."""


class AnswerError(_ProblemsError):
    """A value is not an answer to its question; `problems` says why. It never contains a secret."""


class DigestMismatch(AnswerError):  # noqa: N818
    """A yes or an edit does not name what is decided on now, whose digest is `digest`; the question stays open."""

    def __init__(self, problems: Sequence[Problem], *, digest: str = "") -> None:
        self.digest = digest
        super().__init__(problems)


class NotOpen(MidturnError):  # noqa: N818 (a public name)
    """The question is not open: unknown, closed, or its turn has ended."""


class NoSuchQuestion(NotOpen):
    """The store has never had a question of the id `id`."""

    def __init__(self, message: str, *, id: str = "") -> None:
        self.id = id
        super().__init__(message)


class DeadlinePassed(NotOpen):
    """The deadline of the question `id` has passed, at `deadline` (RFC 3339): it is over, and no answer counts any more."""

    def __init__(self, message: str, *, id: str = "", deadline: str = "") -> None:
        self.id = id
        self.deadline = deadline
        super().__init__(message)


class NotAnswered(MidturnError):  # noqa: N818
    """A question of a tool has no answer: `reason` is `deadline`. That is not a no.

    Of a form, `answers` has what was answered by then. A tool that lets it pass fails with its message.
    """

    def __init__(self, message: str, *, reason: str, answers: Any = None) -> None:
        self.reason = reason
        self.answers = answers
        super().__init__(message)


class Answerer(NamedTuple):
    """The answerer (`who`: a user, a model, or what kind of answerer it was), how (`via`), and when (RFC 3339)."""

    who: str
    via: str | None
    when: str


class AlreadyAnswered(MidturnError):  # noqa: N818
    """Another answer came first; `by` says who in a few words, `answered_by` who, how and when."""

    def __init__(self, message: str, by: str = "", *, answered_by: Answerer | None = None) -> None:
        self.by = by
        self.answered_by = answered_by
        super().__init__(message)


class NotAllowed(MidturnError):  # noqa: N818
    """This `user` (None: no name was given) may not answer the question `id`, whatever the answer is: it stays open."""

    def __init__(self, message: str, *, id: str = "", user: str | None = None) -> None:
        self.id = id
        self.user = user
        super().__init__(message)


class StoreError(MidturnError):
    """A conversation cannot be read or written; the message names the file."""


class NoConversation(StoreError):  # noqa: N818
    """The store has no conversation of that id."""


class TooLarge(StoreError):  # noqa: N818
    """A batch of events is larger than `limits.batch` allows. None of it is recorded."""


class TurnOpen(StoreError):  # noqa: N818
    """The last turn of `conversation` waits to be continued: continue it, or end it, first. The new message was not recorded.

    `text` is the message that began the open turn, and `pending` lists its open questions.
    """

    def __init__(self, message: str, *, conversation: str = "", text: str = "", pending: Sequence[Any] = ()) -> None:
        self.conversation = conversation
        self.text = text
        self.pending = tuple(pending)
        super().__init__(message)


class StoreLocked(StoreError):  # noqa: N818
    """This conversation is being written elsewhere; `holder` (such as `pid 4711 on host-3`) and `since` say who, where they are known."""

    def __init__(self, message: str, holder: str = "", since: str | None = None) -> None:
        self.holder = holder
        self.since = since
        super().__init__(message)


class TooOld(StoreError):  # noqa: N818
    """A newer version, `requires` or later, asks something in this `conversation` that this one does not know. It can be read here."""

    def __init__(self, message: str, *, conversation: str = "", requires: str = "") -> None:
        self.conversation = conversation
        self.requires = requires
        super().__init__(message)


class StoreAway(StoreError):  # noqa: N818
    """The store cannot be reached for now. It has said so in its log: who meets this need not say it again."""

    transient = True


class Busy(StoreError):  # noqa: N818
    """Others write this conversation in quick succession, and waiting for them did not help: try again."""

    transient = True


class ModelError(MidturnError):
    """A model cannot be reached or does not do what was asked.

    `status` is the HTTP status where there was one; `retry_after` (seconds) and `transient` say whether and when to try again.
    `failure` is what went wrong in one word, where a provider's answer says so: `key`, `quota`, `unknown_model`, `unreachable`, …
    `metadata` is what the model wants recorded with the failure, where the failure is recorded. `conversation` is the one whose turn is
    open because of it.
    """

    failure: str | None = None
    metadata: Mapping[str, object] | None = None
    conversation: str | None = None

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None, transient: bool = False) -> None:
        self.status = status
        self.retry_after = retry_after
        self.transient = transient
        super().__init__(message)


class ContextTooLong(ModelError):  # noqa: N818
    """The conversation does not fit into the model's context."""


class ScriptError(ModelError):
    """A script ran out, or was asked something that it does not expect: no resuming can mend it, the turn ends `failed`."""


class Suspended(MidturnError):  # noqa: N818
    """No one is there to answer now; `pending` lists the open questions and the turn waits on disk."""

    def __init__(self, message: str, pending: Sequence[Any] = ()) -> None:
        self.pending = tuple(pending)
        super().__init__(message)


class TerminalGone(MidturnError):  # noqa: N818
    """The terminal at which a person was asked is gone: its window was closed, its connection lost.

    Nothing was said, so nothing is recorded: the question stays open, and the turn can be resumed. A prompter of your own may raise
    it when the person it asks has gone away.
    """


class PersonNeeded(MidturnError):  # noqa: N818
    """Only a person may do this, and this process was started by a tool, which may not answer, approve or configure."""


class CallEnded(MidturnError):  # noqa: N818
    """A call of an `Inquirer` is over without the answer: no one may give one, or the person replied, or ended the turn.

    `content` is what the model is to read as the call's result, `is_error` whether that is an error. With `turn_ended` the turn is over:
    make no further model request in it.
    """

    def __init__(self, content: str, *, is_error: bool = True, turn_ended: bool = False) -> None:
        self.content = content
        self.is_error = is_error
        self.turn_ended = turn_ended
        super().__init__(content)


# Names that went ----------------------------------------------------------------------------------------------------------------

_GONE: Final = {
    "NeedsAdoption": "`midturn.errors.NeedsAdoption` is gone: what lies in your own store is yours, and nothing is adopted any more. "
    "`midturn conversation import` takes in what others recorded.",
}


def missing_name(said: str) -> AttributeError | ImportError:
    """Return what the `__getattr__` that calls this raises, with these words.

    The statement `from … import …` shows nothing of an `AttributeError`, and says only that it "cannot import name": it gets an
    `ImportError` with the same words.
    """
    error = AttributeError(said)
    try:
        raise error
    except AttributeError:  # it knows by whom this was called: `inspect` does, too, but every start would have to load it
        here = error.__traceback__ and error.__traceback__.tb_frame.f_back
    asking = here and here.f_back
    is_imported = asking is not None and asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]
    return ImportError(said) if is_imported else error.with_traceback(None)


class Renamed:
    """A class some of whose names went: `_gone` says of each what to use instead."""

    _gone: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # to a type checker these names are plainly unknown

        def __getattr__(self, name: str) -> object:
            said = self._gone.get(name)
            raise AttributeError(said or f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise missing_name(_GONE.get(name) or f"module {__name__!r} has no attribute {name!r}")
