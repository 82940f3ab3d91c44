"""The body of a run request: parsing and validation.

Front ends may use different versions of the protocol. Members are read in both spellings
(`threadId`, `thread_id`), unknown members are ignored, and `null` is the same as a missing member.
An invalid body is rejected before the stream starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.question.json_value import Json, JsonObject

PROTOCOL_VERSION: Final = "1.0"
MAX_ID_LENGTH: Final = 256
"""Maximum length of the IDs that a front end chooses, in characters."""
MAX_MESSAGES_AT_ONCE: Final = 20
"""Maximum number of new messages in one run."""


class InputRejected(Exception):  # noqa: N818  a response with a status, not a fault
    """The body is not a valid run request. `status` is the HTTP status. `pointer` is a
    JSON Pointer to the invalid value.
    """

    def __init__(self, message: str, *, pointer: str = "", status: int = 422) -> None:
        super().__init__(f"{pointer}: {message}" if pointer else message)
        self.status = status


class InputMessage(Struct, frozen=True, kw_only=True):
    """A message in the front end's list of messages.

    Args:
        id: ID of the message.
        role: `user`, `assistant`, `tool`, `system`, `developer`, `reasoning`, `activity`, or a role
            that a newer version defines.
        text: Text of the message; empty if there is none.
        ignored_parts: Types of the content parts that are not text.
        given: The message as it was sent.
    """

    id: str
    role: str
    text: str = ""
    ignored_parts: tuple[str, ...] = ()
    given: JsonObject = {}


EntryStatus: TypeAlias = Literal["resolved", "cancelled"]


class ResumeEntry(Struct, frozen=True, kw_only=True):
    """An answer to an interrupt.

    Args:
        id: ID of the interrupt.
        status: `resolved` or `cancelled`.
        payload: The answer; `UNSET` if there is none.
        decline: Whether `cancelled` is meant as a refusal.
        reply: Text for the model with a refusal.
        end_turn: Whether to end the turn.
        refresh: Whether the front end only asks for the current state. The entry is then no answer.
    """

    id: str
    status: EntryStatus
    payload: Json | UnsetType = UNSET
    decline: bool = False
    reply: str = ""
    end_turn: bool = False
    refresh: bool = False


class RunInput(Struct, frozen=True, kw_only=True):
    """A run request.

    Args:
        thread: ID of the thread, chosen by the front end.
        run: ID of the run, chosen by the front end.
        is_old: Whether the front end speaks a version before 1.0.
        messages: All messages that the front end has.
        entries: Answers to interrupts.
        tools: Names of the tools of the front end.
        context: Context from the front end, as pairs of description and value.
    """

    thread: str
    run: str
    is_old: bool = False
    messages: tuple[InputMessage, ...] = ()
    entries: tuple[ResumeEntry, ...] = ()
    tools: tuple[str, ...] = ()
    context: tuple[tuple[str, str], ...] = ()

    def new_messages(self, recorded: frozenset[str]) -> tuple[InputMessage, ...]:
        """Return the user messages at the end of the input that are not recorded yet.

        Args:
            recorded: The IDs of the recorded messages.
        """
        new: list[InputMessage] = []
        for message in reversed(self.messages):
            if message.role != "user" or message.id in recorded:
                break
            new.insert(0, message)
        return tuple(new)


def parse_run_input(body: bytes) -> RunInput:
    """Parse the body of a run request.

    Raises:
        InputRejected: The body is not JSON (400), or it is not a valid run request (422).
    """
    try:
        body.decode()
        given = cast("Json", msgspec.json.decode(body))
    except (ValueError, RecursionError) as error:  # `msgspec.DecodeError` is a `ValueError`
        raise InputRejected(f"The body is not JSON: {error}.", status=400) from None
    if not isinstance(given, Mapping):
        raise InputRejected("The body must be a JSON object.")
    run = _id(given, "runId")
    messages = _list(given, "messages", is_required=True)
    refreshes = _flag(_midturn(member(given, "forwardedProps")), "refresh")
    entries = _list(given, "resume")
    return RunInput(
        thread=_id(given, "threadId"),
        run=run,
        is_old=_is_old(given),
        messages=_with_ids(messages, run, is_resume=bool(entries)),
        entries=tuple(
            _entry(entry, f"/resume/{place}", refreshes=refreshes)
            for place, entry in enumerate(entries)
        ),
        tools=tuple(_tool_names(_list(given, "tools"))),
        context=tuple(_context(_list(given, "context"))),
    )


# Parts
# --------------------------------------------------------------------------------------------------


def member(given: Json, name: str) -> Json:
    """Return a member, in camel case or snake case; None if it is missing."""
    if not isinstance(given, Mapping):
        return None
    found = given.get(name)
    return given.get(_snake_case(name)) if found is None else found


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _list(given: JsonObject, name: str, *, is_required: bool = False) -> Sequence[Json]:
    found = member(given, name)
    if found is None and not is_required:
        return ()
    if not isinstance(found, list):
        raise InputRejected("must be an array.", pointer=f"/{name}")
    return found


def _id(given: JsonObject, name: str, pointer: str = "") -> str:
    found = member(given, name)
    return _checked_id(found, f"{pointer}/{name}")


def _checked_id(found: Json, pointer: str) -> str:
    """Check an ID. It is stored and shown, so it must not contain control characters."""
    if not isinstance(found, str) or not found:
        raise InputRejected("must be a string that is not empty.", pointer=pointer)
    if len(found) > MAX_ID_LENGTH or not found.isprintable():
        raise InputRejected(
            f"must have at most {MAX_ID_LENGTH} characters, without control characters.",
            pointer=pointer,
        )
    return found


def _is_old(given: JsonObject) -> bool:
    """Return whether the front end uses a version of the protocol before 1.0. Such a front end
    declares no version.
    """
    version = member(given, "protocolVersion")
    if version is None:
        return True
    if not isinstance(version, str) or version.partition(".")[0] != "1":
        raise InputRejected(
            f'this server speaks version "{PROTOCOL_VERSION}".', pointer="/protocolVersion"
        )
    return False


def _with_ids(messages: Sequence[Json], run: str, *, is_resume: bool) -> tuple[InputMessage, ...]:
    """Return the messages, each with an ID. If the last message of an input without `resume` has no
    ID, it is a new message and gets an ID. Other messages without an ID are left out, because they
    cannot be recognized later.
    """
    found: list[InputMessage] = []
    last = len(messages) - 1
    for place, message in enumerate(messages):
        pointer = f"/messages/{place}"
        role = member(message, "role")
        if not isinstance(message, Mapping) or not isinstance(role, str):
            raise InputRejected("must be an object with a `role`.", pointer=pointer)
        given_id = member(message, "id")
        if given_id is None and (place != last or is_resume):
            continue
        id = f"{run}-{place}" if given_id is None else _checked_id(given_id, f"{pointer}/id")  # noqa: A001  the name in the protocol
        text, ignored = _text(message.get("content"), f"{pointer}/content")
        found.append(
            InputMessage(id=id, role=role, text=text, ignored_parts=ignored, given=message)
        )
    return tuple(found)


def _text(content: Json, pointer: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a message, and the types of its other parts."""
    if content is None or isinstance(content, Mapping):  # the content of an activity is an object
        return "", ()
    if isinstance(content, str):
        return content, ()
    if not isinstance(content, list):
        raise InputRejected("must be a string or an array of parts.", pointer=pointer)
    texts: list[str] = []
    ignored: list[str] = []
    for part in content:
        kind, text = member(part, "type"), member(part, "text")
        if kind == "text" and isinstance(text, str):
            texts.append(text)
        else:
            ignored.append(kind if isinstance(kind, str) else "unknown")
    return "\n".join(texts), tuple(ignored)


def _entry(given: Json, pointer: str, *, refreshes: bool) -> ResumeEntry:
    if not isinstance(given, Mapping):
        raise InputRejected("must be an object.", pointer=pointer)
    status = given.get("status")
    if status not in ("resolved", "cancelled"):
        raise InputRejected("must be `resolved` or `cancelled`.", pointer=f"{pointer}/status")
    wishes = _midturn(given.get("metadata"))
    reply = member(wishes, "reply")
    return ResumeEntry(
        id=_id(given, "interruptId", pointer),
        status=status,
        payload=given.get("payload", UNSET),
        decline=_flag(wishes, "decline") or isinstance(reply, str),
        reply=reply if isinstance(reply, str) else "",
        end_turn=_flag(wishes, "endTurn"),
        refresh=refreshes or _flag(wishes, "refresh"),
    )


def _midturn(given: Json) -> Json:
    """Return the member `midturn`, in which front ends send fields that the protocol does not
    define.
    """
    return member(given, "midturn")


def _flag(given: Json, name: str) -> bool:
    return member(given, name) is True


def _tool_names(tools: Sequence[Json]) -> Iterator[str]:
    return (name for tool in tools if isinstance(name := member(tool, "name"), str))


def _context(given: Sequence[Json]) -> Iterator[tuple[str, str]]:
    for item in given:
        description, value = member(item, "description"), member(item, "value")
        if isinstance(description, str) and isinstance(value, str):
            yield description, value
