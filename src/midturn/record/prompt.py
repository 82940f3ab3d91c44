"""A prompt: the question, its asker, its context, and the replies that are possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.question.deadline import time_left
from midturn.question.people import People
from midturn.question.question import Question
from midturn.record.open_question import OpenQuestion, PromptKind
from midturn.record.subject import Subject
from midturn.values.json_value import Json, JsonObject


def _nowhere() -> None:
    return None


class Prompt(Struct, frozen=True, kw_only=True):
    """One thing to ask a person.

    `question` is what an approval asks, too (a boolean). `id` names it as `OpenQuestion.id` does, `event` is the `event_id` of its
    request; `asked_by` is the header, computed from the source, and `label` a configured name that is only shown beside it.
    `error` says why the last reply did not fit; `index` and `total` count in the form as submitted. `verdict` is what a reviewer said,
    which is the beginning of the question's context: words from outside, to be quoted. `parameters` is what edited arguments must fit.
    `people` are those whose question it is, where it is not anyone's.
    `always` is what another agent offers to keep of a yes, each by itself; empty where the turn remembers. `deadline` is until when an
    answer counts (RFC 3339), and `time_left` says for people how long that is now; both are empty where that is open.

    Args:
        kind: `tool` (a question), `run`, `deliver` (approvals) or `review` (of the answers of a form).
        subject: The call or the result that an approval is about, or the answers that are reviewed.
        prefill: What the field begins with; `UNSET` where it is empty.
        can_go_back: Whether `WentBack` may be replied.
        can_reply: Whether `Replied` may be.
        may_remember: Whether `remember` of `Answered` counts.
        conversation: The id of the conversation.
        tool: The tool whose call asks.
        arguments: The arguments of that call.
        find_open: Finds what `open` returns.
    """

    question: Question[Any]
    kind: PromptKind = "tool"
    asked_by: str = ""
    subject: Subject | None = None
    index: int = 1
    total: int = 1
    prefill: Json | UnsetType = UNSET
    error: str | None = None
    can_go_back: bool = False
    can_reply: bool = True
    may_remember: bool = False
    always: tuple[str, ...] = ()
    id: str = ""
    event: str = ""
    conversation: str = ""
    tool: str = ""
    arguments: Json = None
    label: str | None = None
    verdict: str | None = None
    people: People | None = None
    parameters: JsonObject = {}
    deadline: str = ""
    time_left: Callable[[], str] = str
    find_open: Callable[[], OpenQuestion | None] = _nowhere

    @property
    def open(self) -> OpenQuestion | None:
        """The question as everyone outside the turn sees it, with `to_json()`; None where it cannot be answered from outside now."""
        return self.find_open()

    def timed(self, asked_at: str, now: Callable[[], str]) -> Self:
        """Return the prompt with how long there is left for an answer, where that has an end.

        Args:
            asked_at: When it was asked; empty where that is now.
            now: Returns the time.
        """
        began = asked_at or (now() if self.deadline else "")
        return replace(self, time_left=lambda: time_left(now(), began, self.deadline)) if self.deadline else self
