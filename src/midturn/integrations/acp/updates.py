"""Converts the live and recorded events of a conversation to updates for an editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import acp
from acp import schema
from msgspec import Struct

from midturn.events.open_question import shown
from midturn.events.transcript import (
    CallEntry,
    Entry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    TranscriptBuilder,
    WordsEntry,
)
from midturn.events.types import Event
from midturn.integrations.hooks.model_messages import asker_name
from midturn.ports import (
    Happening,
    ModelFinished,
    Notice,
    ReasoningShown,
    Recorded,
    TextShown,
    ToolBegan,
)
from midturn.question.json_value import Json, members

Update: TypeAlias = Any
"""An update of the SDK's session protocol."""
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
_MAX_TITLE_LENGTH = 80


class Updates:
    """Sends the events of one conversation to the editor. Each event is sent once, even if
    another process records it.
    """

    def __init__(self, send: SendUpdate) -> None:
        self._send = send
        self._sent_ids: set[str] = set()
        self._transcript = TranscriptBuilder()
        self._content: dict[str, list[str]] = {}

    def show(self, happening: Happening) -> None:
        """Send an event from a turn that runs in this process."""
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
                entry = self._new_entry(event)
                if not isinstance(
                    entry, WordsEntry
                ):  # the editor already shows the user's text, and the model's text was streamed
                    self._send_entry(entry)
            case ModelFinished() | _:
                pass

    def tell(self, events: Sequence[Event]) -> None:
        """Send the recorded events that were not sent before."""
        for event in events:
            self._send_entry(self._new_entry(event))

    def warn(self, text: str) -> None:
        """Send a message from midturn, as opposed to the model's text."""
        self._send(acp.update_agent_thought_text(f"midturn: {text}\n"))

    def show_question_text(self, call: str, words: str) -> None:
        """Show text about an open question, in the tool call that asks it."""
        self._send(
            acp.update_tool_call(call, content=_texts([*self._content.get(call, ()), words]))
        )

    def _new_entry(self, event: Event) -> Entry | None:
        """Return the transcript entry of an event, or None if the event was sent before."""
        if event.event_id in self._sent_ids:
            return None
        self._sent_ids.update({event.event_id} - {""})  # events from other programs may have no id
        return self._transcript.take(event)

    def _send_entry(self, entry: Entry | None) -> None:
        for update in self._updates_for(entry):
            self._send(update)

    def _updates_for(self, entry: Entry | None) -> Iterator[Update]:
        match entry:
            case WordsEntry(kind="request", text=text):
                yield acp.update_user_message_text(text)
            case WordsEntry(kind="reasoning", text=text) if text:
                yield acp.update_agent_thought_text(text)
            case WordsEntry(kind="message", text=text) if text:
                yield acp.update_agent_message_text(text)
            case CallEntry(event=call):
                title, kind = title_of(call.name, call.arguments), kind_of(call.name)
                yield acp.start_tool_call(
                    call.event_id, title, kind=kind, status="pending", raw_input=call.arguments
                )
            case ResponseEntry(event=answer, request=RequestEntry(event=asked)) if (
                answer.outcome == "answered"
            ):
                said = self._content.setdefault(asked.call, [])
                said.append(f"**{asked.question.text}** {shown(answer.answer)}")
                yield acp.update_tool_call(asked.call, content=_texts(said))
            case ResultEntry(event=result):
                status: Literal["failed", "completed"] = (
                    "failed" if result.is_error else "completed"
                )
                yield acp.update_tool_call(
                    result.call,
                    status=status,
                    content=_texts([*self._content.pop(result.call, ()), result.content]),
                )
            case _:
                pass


def title_of(tool: str, arguments: Json) -> str:
    """Return the title of a call: the tool's name and the first string among its arguments."""
    text = next((value for value in members(arguments).values() if isinstance(value, str)), "")
    line = " ".join(text.split())
    return f"{tool}: {line[:_MAX_TITLE_LENGTH]}" if line else tool


def kind_of(tool: str) -> schema.ToolKind:
    """Return the kind of a tool, which selects the editor's icon."""
    return _KINDS.get(tool, "other")


def _texts(texts: Sequence[str]) -> list[schema.ContentToolCallContent]:
    return [acp.tool_content(acp.text_block(text)) for text in texts]


# --------------------------------------------------------------------------------------------------
# The client: an editor or another program


TRUSTED_CLIENTS: Final = ("zed", "codecompanion")
"""Name prefixes of clients in which a refusal always comes from a person.

Other clients also refuse if no person is present. A refusal from such a client leaves the
question open.
"""

CLIENTS_WITHOUT_OPTIONS: Final = ("acpx",)
"""Name prefixes of clients that do not show options. If the user approves in such a client, it
chooses the first option for the user.
"""


class Editor(Struct, frozen=True, kw_only=True):
    """A client.

    Args:
        name: Display name. It is recorded with the answers given in this client.
        shows_forms: Whether the client supports forms.
        can_refuse: Whether a refusal is always a person's decision.
        shows_options: Whether the client lets a person choose among several options.
    """

    name: str
    shows_forms: bool = False
    can_refuse: bool = False
    shows_options: bool = True

    @classmethod
    def of(
        cls, capabilities: schema.ClientCapabilities | None, info: schema.Implementation | None
    ) -> Editor:
        """Return a client with the name and capabilities that it reported."""
        elicitation = capabilities.elicitation if capabilities else None
        name = info.name if info else ""
        return cls(
            name=asker_name((info.title or name) if info else "", "ACP client"),
            shows_forms=elicitation is not None and elicitation.form is not None,
            can_refuse=name.strip().casefold().startswith(TRUSTED_CLIENTS),
            shows_options=not name.strip().casefold().startswith(CLIENTS_WITHOUT_OPTIONS),
        )
