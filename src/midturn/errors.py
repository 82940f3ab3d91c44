"""Exceptions raised by midturn.

```
MidturnError
├── ConfigError        a configuration value, file or flag is wrong
├── QuestionError      a question or form is invalid; `problems` lists every problem
├── AnswerError        a value is not a valid answer to its question; `problems` lists why
│   └── DigestMismatch the answer refers to an earlier version of the call or result
├── NotOpen            the question is unknown or closed
│   ├── NoSuchQuestion no question has this id
│   └── DeadlinePassed its deadline has passed, so it accepts no answer
├── AlreadyAnswered    another answer came first
├── NotAnswered        in a tool: the question has no answer; `reason` says why
├── NotAllowed         this user may not answer the question; it stays open
├── StoreError         a conversation cannot be read or written
│   ├── TooLarge       a batch of events is over the size limit
│   ├── TurnOpen       the last turn of the conversation is still open
│   ├── StoreLocked    another process is writing the conversation
│   └── Busy           too many processes write it in quick succession; try again
├── ModelError         a model cannot be reached or returns an invalid response
│   ├── ContextTooLong the conversation does not fit into the model's context
│   └── ScriptError    a scripted model has no matching entry; the turn ends
├── Suspended          no one is there to answer now; `pending` lists the open questions
├── PersonNeeded       only a person may do this, and this process was started by a tool
├── TerminalGone       the person disconnected without a reply; the turn stays open
└── CallEnded          a call of an `Inquirer` ended without an answer; `content` is its result
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast


class Problem(NamedTuple):
    """A validation error in a document.

    Args:
        pointer: JSON Pointer to the invalid value; `""` for the whole document.
        message: Description of the problem, and how to fix it.
    """

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class MidturnError(Exception):
    """Base class. Every error has a message for people, fields for programs, and `to_json()`."""

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON: `error` (the class name), `message`, and the public fields."""
        fields = {
            name: _as_json(value) for name, value in vars(self).items() if not name.startswith("_")
        }
        return {"error": type(self).__name__, "message": str(self), **fields}


def _as_json(value: object) -> object:
    to_json: Callable[[], object] | None = getattr(value, "to_json", None)
    if to_json is not None:
        return to_json()
    if isinstance(value, tuple) and (names := getattr(cast("object", value), "_fields", None)):
        return {
            name: _as_json(item)
            for name, item in zip(names, cast("tuple[object, ...]", value), strict=True)
        }
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in cast("Sequence[object]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class ConfigError(MidturnError):
    """A configuration value, file or flag is wrong. The message names its location and the allowed
    values.
    """


class DepsMissing(ConfigError):  # noqa: N818  callers catch it as ConfigError
    """A tool needs the dependencies with which its turn was started, and this run has none. The
    run ends, and the call stays open.
    """


class _ProblemsError(MidturnError):
    """Base class of errors that list all validation errors together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class QuestionError(_ProblemsError):
    """A question or form is invalid. Each entry of `problems` has a JSON Pointer and a remedy."""


class AnswerError(_ProblemsError):
    """A value is not a valid answer to its question. `problems` says why and never contains a
    secret.
    """


class DigestMismatch(AnswerError):  # noqa: N818
    """An approval or edit refers to an earlier version of the call or result. `digest` identifies
    the current version. The question stays open.
    """

    def __init__(self, problems: Sequence[Problem], *, digest: str = "") -> None:
        self.digest = digest
        super().__init__(problems)


class NotOpen(MidturnError):  # noqa: N818 a public name
    """The question is unknown or closed, or its turn has ended."""


class NoSuchQuestion(NotOpen):
    """The store has no question with the id `id`."""

    def __init__(self, message: str, *, id: str = "") -> None:
        self.id = id
        super().__init__(message)


class DeadlinePassed(NotOpen):
    """The deadline of question `id` passed at `deadline` (RFC 3339). It accepts no more answers."""

    def __init__(self, message: str, *, id: str = "", deadline: str = "") -> None:
        self.id = id
        self.deadline = deadline
        super().__init__(message)


class NotAnswered(MidturnError):  # noqa: N818
    """In a tool: a question was not answered before its deadline (`reason` is `deadline`).

    This is not a refusal. For a form, `answers` contains the answers given before the deadline. If
    the tool does not catch this exception, the call fails with its message.
    """

    def __init__(self, message: str, *, reason: str, answers: Any = None) -> None:
        self.reason = reason
        self.answers = answers
        super().__init__(message)


class Answerer(NamedTuple):
    """The responder (`who`: a user, a model, or the kind of responder), the interface (`via`),
    and the time (RFC 3339).
    """

    who: str
    via: str | None
    when: str


class AlreadyAnswered(MidturnError):  # noqa: N818
    """Another answer came first. `by` names the responder; `answered_by` adds the interface and
    the time.
    """

    def __init__(self, message: str, by: str = "", *, answered_by: Answerer | None = None) -> None:
        self.by = by
        self.answered_by = answered_by
        super().__init__(message)


class NotAllowed(MidturnError):  # noqa: N818
    """`user` (None: unnamed) may not answer the question `id`. The question stays open."""

    def __init__(self, message: str, *, id: str = "", user: str | None = None) -> None:
        self.id = id
        self.user = user
        super().__init__(message)


class StoreError(MidturnError):
    """A conversation cannot be read or written. The message names the file."""


class NoConversation(StoreError):  # noqa: N818
    """The store has no conversation with this id."""


class TooLarge(StoreError):  # noqa: N818
    """A batch of events is larger than `limits.batch`. No event of the batch is recorded."""


class TurnOpen(StoreError):  # noqa: N818
    """The last turn of `conversation` is still open. Continue or end it first. The new message was
    not recorded.

    `text` is the message that started the open turn, and `pending` lists its open questions.
    """

    def __init__(
        self, message: str, *, conversation: str = "", text: str = "", pending: Sequence[Any] = ()
    ) -> None:
        self.conversation = conversation
        self.text = text
        self.pending = tuple(pending)
        super().__init__(message)


class StoreLocked(StoreError):  # noqa: N818
    """Another process is writing this conversation. `holder` (such as `pid 4711 on host-3`) and
    `since` describe that process, if known.
    """

    def __init__(self, message: str, holder: str = "", since: str | None = None) -> None:
        self.holder = holder
        self.since = since
        super().__init__(message)


class TooOld(StoreError):  # noqa: N818
    """`conversation` uses a feature of version `requires`. This version can read the
    conversation, but not continue it.
    """

    def __init__(self, message: str, *, conversation: str = "", requires: str = "") -> None:
        self.conversation = conversation
        self.requires = requires
        super().__init__(message)


class StoreAway(StoreError):  # noqa: N818
    """The store cannot be reached. The store logs this once, so callers need not log it again."""

    transient = True


class Busy(StoreError):  # noqa: N818
    """Too many processes write this conversation in quick succession, and retrying did not help.
    Try again.
    """

    transient = True


class ModelError(MidturnError):
    """A model cannot be reached or returns an invalid response.

    `status` is the HTTP status, if any. `transient` says whether a retry can help, and
    `retry_after` is the number of seconds to wait before the retry. `failure` classifies the
    error if the provider reports its cause: `key`, `quota`, `unknown_model`, `unreachable`, …
    `metadata` is recorded with the failure, if the failure is recorded. `conversation` is the
    conversation whose turn stays open.
    """

    failure: str | None = None
    metadata: Mapping[str, object] | None = None
    conversation: str | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
    ) -> None:
        self.status = status
        self.retry_after = retry_after
        self.transient = transient
        super().__init__(message)


class ContextTooLong(ModelError):  # noqa: N818
    """The conversation does not fit into the model's context."""


class ScriptError(ModelError):
    """A script ended, or does not expect this request. Resuming cannot fix it, so the turn ends
    as `failed`.
    """


class Suspended(MidturnError):  # noqa: N818
    """No one is there to answer now. `pending` lists the open questions; the turn is stored and
    can be resumed.
    """

    def __init__(self, message: str, pending: Sequence[Any] = ()) -> None:
        self.pending = tuple(pending)
        super().__init__(message)


class TerminalGone(MidturnError):  # noqa: N818
    """The terminal of the person who was asked was closed or disconnected.

    There was no reply, so nothing is recorded. The question stays open, and the turn can be
    resumed. A custom prompter can raise it when the person disconnects.
    """


class PersonNeeded(MidturnError):  # noqa: N818
    """Only a person may do this. This process was started by a tool, and tools may not answer,
    approve or configure.
    """


class CallEnded(MidturnError):  # noqa: N818
    """A call of an `Inquirer` ended without an answer: no one can answer, or the person replied to
    the model or ended the turn.

    `content` is the result of the call for the model, and `is_error` says whether it is an error.
    If `turn_ended` is set, make no further model request in this turn.
    """

    def __init__(self, content: str, *, is_error: bool = True, turn_ended: bool = False) -> None:
        self.content = content
        self.is_error = is_error
        self.turn_ended = turn_ended
        super().__init__(content)
