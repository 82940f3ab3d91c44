"""Updates that an editor is shown of a conversation: while it runs here, and as it stands recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import acp
from acp import schema
from msgspec import Struct

from midturn.events.open_question import shown
from midturn.events.transcript import CallEntry, Entry, RequestEntry, ResponseEntry, ResultEntry, Story, WordsEntry
from midturn.events.types import Event
from midturn.integrations.hooks.model_messages import asker_name
from midturn.ports import Happening, ModelFinished, Notice, ReasoningShown, Recorded, TextShown, ToolBegan
from midturn.question.json_value import Json, members

Update: TypeAlias = Any
"""One of the SDK's updates of a session."""
SendUpdate: TypeAlias = Callable[[Update], None]
_KINDS: dict[str, schema.ToolKind] = {
    "fs_list_files": "read",
    "fs_read_file": "read",
    "fs_grep_files": "search",
    "fs_create_file": "edit",
    "fs_modify_file": "edit",
    "fs_delete_file": "delete",
    "fs_move_file": "move",
}
_LONGEST = 80


class Updates:
    """Says what happens in one conversation; each event once, whichever process records it."""

    def __init__(self, send: SendUpdate) -> None:
        self._send = send
        self._told: set[str] = set()
        self._story = Story()
        self._content: dict[str, list[str]] = {}

    def show(self, happening: Happening) -> None:
        """Tell what happens in a turn that runs here."""
        match happening:
            case TextShown(text):
                self._send(acp.update_agent_message_text(text))
            case ReasoningShown(text):
                self._send(acp.update_agent_thought_text(text))
            case ToolBegan(call):
                self._send(acp.update_tool_call(call.event, status="in_progress"))
            case Notice(text):
                self.warn(text)
            case Recorded(event):
                entry = self._new(event)
                if not isinstance(entry, WordsEntry):  # the editor has shown the user's, and the model's came in pieces
                    self._tell(entry)
            case ModelFinished() | _:
                pass

    def tell(self, events: Sequence[Event]) -> None:
        """Tell what is recorded, as far as it was not told before."""
        for event in events:
            self._tell(self._new(event))

    def warn(self, text: str) -> None:
        """Tell the user something that is no word of the model's."""
        self._send(acp.update_agent_thought_text(f"midturn: {text}\n"))

    def waits(self, call: str, words: str) -> None:
        """Say at a call where its question is asked."""
        self._send(acp.update_tool_call(call, content=_texts([*self._content.get(call, ()), words])))

    def _new(self, event: Event) -> Entry | None:
        """Return the entry of an event that was not told before."""
        if event.event_id in self._told:
            return None
        self._told.update({event.event_id} - {""})  # an event of another program may have no id
        return self._story.take(event)

    def _tell(self, entry: Entry | None) -> None:
        for update in self._of(entry):
            self._send(update)

    def _of(self, entry: Entry | None) -> Iterator[Update]:
        match entry:
            case WordsEntry(kind="request", text=text):
                yield acp.update_user_message_text(text)
            case WordsEntry(kind="reasoning", text=text) if text:
                yield acp.update_agent_thought_text(text)
            case WordsEntry(kind="message", text=text) if text:
                yield acp.update_agent_message_text(text)
            case CallEntry(event=call):
                title, kind = title_of(call.name, call.arguments), kind_of(call.name)
                yield acp.start_tool_call(call.event_id, title, kind=kind, status="pending", raw_input=call.arguments)
            case ResponseEntry(event=answer, request=RequestEntry(event=asked)) if answer.outcome == "answered":
                said = self._content.setdefault(asked.call, [])
                said.append(f"**{asked.question.text}** {shown(answer.answer)}")
                yield acp.update_tool_call(asked.call, content=_texts(said))
            case ResultEntry(event=result):
                status: Literal["failed", "completed"] = "failed" if result.is_error else "completed"
                yield acp.update_tool_call(
                    result.call, status=status, content=_texts([*self._content.pop(result.call, ()), result.content])
                )
            case _:
                pass


def title_of(tool: str, arguments: Json) -> str:
    """Return what names a call in a list: the tool, and the first text among its arguments."""
    text = next((value for value in members(arguments).values() if isinstance(value, str)), "")
    line = " ".join(text.split())
    return f"{tool}: {line[:_LONGEST]}" if line else tool


def kind_of(tool: str) -> schema.ToolKind:
    """Return what an editor draws beside a call."""
    return _KINDS.get(tool, "other")


def _texts(texts: Sequence[str]) -> list[schema.ContentToolCallContent]:
    return [acp.tool_content(acp.text_block(text)) for text in texts]


# ----------------------------------------------------------------------------------------------------------------------
# Who is at the other end: an editor, or another client of the Agent Client Protocol


BELIEVED: Final = ("zed", "codecompanion")
"""Clients, by the beginning of the name that they give themselves, in which only a person refuses.

Others refuse by themselves when no one is there: what they refuse stays open.
"""

YES_OR_NO: Final = ("acpx",)
"""Clients, by the same, that show no options: a yes there takes the first one, unseen."""


class Editor(Struct, frozen=True, kw_only=True):
    """A client: its `name` is recorded with what is answered there.

    Args:
        name: What people call it.
        shows_forms: It says that it can show a form.
        can_refuse: Its no is a person's.
        shows_options: One of several can be chosen there.
    """

    name: str
    shows_forms: bool = False
    can_refuse: bool = False
    shows_options: bool = True

    @classmethod
    def of(cls, capabilities: schema.ClientCapabilities | None, info: schema.Implementation | None) -> Editor:
        """Read what a client says of itself."""
        elicitation = capabilities.elicitation if capabilities else None
        name = info.name if info else ""
        return cls(
            name=asker_name((info.title or name) if info else "", "ACP client"),
            shows_forms=elicitation is not None and elicitation.form is not None,
            can_refuse=name.strip().casefold().startswith(BELIEVED),
            shows_options=not name.strip().casefold().startswith(YES_OR_NO),
        )
