"""The questions of a story and the protocols of its two participants: the asker and the
person.

An interface is a class that implements one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from midturn.routing.policy import DetachedPolicy, ResultPolicy, RunPolicy
from midturn.stores.store import ConversationStore
from support.stories.outcome import Outcome

CHANGED = "changed"
"""Marker file. When it exists, the tool asks its changed question."""

ENV: dict[str, Any] = {
    "id": "env",
    "text": "Which environment?",
    "answer_type": {"type": "select", "options": ["dev", "prod"]},
}
INQUIRIES: Sequence[dict[str, Any]] = (
    {"tool": "*", "question": "*", "answers": [{"reason": "Fine.", "answer": True}]},
)
"""Replies of the model to side requests."""


class Scene(Struct, frozen=True, kw_only=True):
    """One call of a tool: its questions in wire format, and the policies for the call (`run`)
    and its result (`result`).

    - `by_model`: the model asks by `ask_user`, and its form ends with a review.
    - `say`: the text the tool returns. By default, its answers as JSON.
    - `changed`: the questions after `change` was called.
    - `second`: the questions of a second, parallel call.
    - `detached`: the detached policy. A model that is asked instead of a person says yes
      (`INQUIRIES`).
    - `inner`: an agent inside the tool asks, in its own turn. The outer model reads what the
      inner agent was told.
    - `schema`: the turn's result has this schema.
    """

    ask: Sequence[dict[str, Any]] = ()
    say: str | None = None
    run: RunPolicy = "unattended"
    result: ResultPolicy = "unattended"
    by_model: bool = False
    changed: Sequence[dict[str, Any]] = ()
    second: Sequence[dict[str, Any]] = ()
    detached: DetachedPolicy = "defer"
    inner: bool = False
    schema: dict[str, Any] | None = None

    @property
    def last(self) -> str:
        """The model's last reply."""
        return "Done." if self.schema is None else json.dumps({"ready": True})

    @property
    def tool(self) -> str:
        return "ask_user" if self.by_model else "deploy"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the model's call."""
        if self.by_model:
            return {"questions": [in_ask_user_format(question) for question in self.ask]}
        return {"ask": list(self.ask)} | ({} if self.say is None else {"say": self.say})

    def reply(self, directory: Path) -> dict[str, Any]:
        """Return the model's reply with its calls."""
        changed = (
            {"changed": {"file": str(directory / CHANGED), "ask": list(self.changed)}}
            if self.changed
            else {}
        )
        more = [{"name": self.tool, "arguments": {"ask": list(self.second)}}] if self.second else []
        return {"calls": [{"name": self.tool, "arguments": {**self.arguments, **changed}}, *more]}


def in_ask_user_format(question: dict[str, Any]) -> dict[str, Any]:
    """Return a question in the format of `ask_user`: the type is a string, and its options are
    next to it.
    """
    kind = dict(question["answer_type"])
    return {**question, "answer_type": kind.pop("type"), **kind}


class Asker(Protocol):
    """The participant who asks."""

    def begin(self) -> None:
        """Make the call and run as far as possible."""
        ...

    def go_on(self) -> None:
        """Continue as far as possible, without a terminal."""
        ...

    def again(self) -> None:
        """Make the same call again, answered or not."""
        ...

    def change(self) -> None:
        """Ask something else from now on."""
        ...

    def die(self) -> None:
        """Make the call in a process that is killed while its question is open."""
        ...

    def begin_in_namespace(self) -> None:
        """Make the call in another PID namespace, where the turn stays locked."""
        ...

    def end_in_namespace(self) -> None:
        """Wait until the turn has ended there."""
        ...

    def outcome(self) -> Outcome:
        """Return the outcome so far."""
        ...

    @property
    def store(self) -> ConversationStore:
        """The store of the conversation."""
        ...


class Person(Protocol):
    """The participant who answers. Each method waits until the question is open."""

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        """Answer a question."""
        ...

    def reply(self, question: str, words: str) -> None:
        """Reply to the model instead of answering."""
        ...

    def end_turn(self, question: str) -> None:
        """End the turn."""
        ...

    def allow(self, kind: str) -> None:
        """Allow a call or a result."""
        ...

    def refuse(self, kind: str, reason: str) -> None:
        """Deny a call or a result."""
        ...

    def edit(self, kind: str, value: Any) -> None:
        """Allow a call or a result with changes."""
        ...

    def back(self, question: str) -> None:
        """Go back to the previous question."""
        ...

    def refusal(self, id: str) -> str:
        """Answer yes to a closed question, by its ID; return the refusal."""
        ...

    def tries(self, id: str) -> str:
        """Answer yes to a question right away, by its ID; return the refusal."""
        ...

    def leave(self) -> None:
        """Leave in the middle of the story."""
        ...

    def return_(self) -> None:
        """Come back."""
        ...


class Pair(Struct):
    """An asker and a person for one story, in their own directory.

    `others` creates further people, if `store.answer` is not enough for them.
    """

    asker: Asker
    person: Person
    others: Callable[[ConversationStore, str | None], Any] | None = None
