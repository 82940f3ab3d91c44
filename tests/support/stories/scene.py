"""What is asked in a story, and the two who take part: who asks, and who answers. A door is a class with these few verbs."""

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
"""The file that is there from when the tool asks something else."""

ENV: dict[str, Any] = {"id": "env", "text": "Which environment?", "answer_type": {"type": "select", "options": ["dev", "prod"]}}
INQUIRIES: Sequence[dict[str, Any]] = ({"tool": "*", "question": "*", "answers": [{"reason": "Fine.", "answer": True}]},)
"""What a model says that is asked on the side."""


class Scene(Struct, frozen=True, kw_only=True):
    """One call of a tool: what it asks (as on the wire), and who has to allow it (`run`) or its result (`result`).

    `by_model`: the model asks by `ask_user`, and its form ends in a review. What is said by the tool is its answers as JSON, unless it
    has something to `say`. From when `change` was called it asks `changed`; `second` is what a second call asks at the same time.
    `detached` is the policy while no one is there: a model that is asked then says yes (`INQUIRIES`).
    `inner`: an agent inside a tool asks, in a turn of its own, and says what it was told; that is what the outer model reads.
    `schema`: the turn's result has a shape, which the model's last word has to have.
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
        """What the model says at last."""
        return "Done." if self.schema is None else json.dumps({"ready": True})

    @property
    def tool(self) -> str:
        """The tool that is called."""
        return "ask_user" if self.by_model else "deploy"

    @property
    def arguments(self) -> dict[str, Any]:
        """What the model calls it with."""
        if self.by_model:
            return {"questions": [as_asked_by_a_model(question) for question in self.ask]}
        return {"ask": list(self.ask)} | ({} if self.say is None else {"say": self.say})

    def reply(self, directory: Path) -> dict[str, Any]:
        """Return what the model says: its calls."""
        changed = {"changed": {"file": str(directory / CHANGED), "ask": list(self.changed)}} if self.changed else {}
        more = [{"name": self.tool, "arguments": {"ask": list(self.second)}}] if self.second else []
        return {"calls": [{"name": self.tool, "arguments": {**self.arguments, **changed}}, *more]}


def as_asked_by_a_model(question: dict[str, Any]) -> dict[str, Any]:
    """Return a question as `ask_user` takes it: the type is a word, and what belongs to it stands beside it."""
    kind = dict(question["answer_type"])
    return {**question, "answer_type": kind.pop("type"), **kind}


class Asker(Protocol):
    """Who asks."""

    def begin(self) -> None:
        """Make the call, as far as it goes."""
        ...

    def go_on(self) -> None:
        """Go on as far as it goes, with nobody at any terminal."""
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

    def begin_apart(self) -> None:
        """Make the call in another PID namespace, where the turn stays in hand."""
        ...

    def end_apart(self) -> None:
        """Wait until it has gone on there to the end."""
        ...

    def outcome(self) -> Outcome:
        """Say what has become of it."""
        ...

    @property
    def store(self) -> ConversationStore:
        """Where it is on record."""
        ...


class Person(Protocol):
    """Who answers. Each verb waits until that is asked."""

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        """Answer a question."""
        ...

    def reply(self, question: str, words: str) -> None:
        """Say something to the model instead."""
        ...

    def end_turn(self, question: str) -> None:
        """End the turn."""
        ...

    def allow(self, kind: str) -> None:
        """Say yes to a call or a result."""
        ...

    def refuse(self, kind: str, reason: str) -> None:
        """Say no to it."""
        ...

    def edit(self, kind: str, value: Any) -> None:
        """Say yes to it, changed."""
        ...

    def back(self, question: str) -> None:
        """Take the answer before it back."""
        ...

    def refusal(self, id: str) -> str:
        """Say yes to a question that is not open any more, by its address; return what they are told."""
        ...

    def tries(self, id: str) -> str:
        """Say yes to a question right now, by its address; return what they are told."""
        ...

    def leave(self) -> None:
        """Go away in the middle."""
        ...

    def return_(self) -> None:
        """Come back."""
        ...


class Pair(Struct):
    """An asker and a person, met for one story in a directory of their own; `others` is who else answers, where nobody else knows how."""

    asker: Asker
    person: Person
    others: Callable[[ConversationStore, str | None], Any] | None = None
