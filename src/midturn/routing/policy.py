"""Policies: the configured targets, static answers and permissions that the routing table looks at."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from midturn.events.types import Source
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.people import People
from midturn.routing.rules import Ruling, RunRules, strictest

DetachedPolicy: TypeAlias = Literal["defer", "auto", "defaults", "deny"]
TargetKind: TypeAlias = Literal["user", "assistant", "assistant_with_escalation"]
RunPolicy: TypeAlias = Literal["ask", "unattended", "edit", "skip"]
ResultPolicy: TypeAlias = Literal["unattended", "ask", "edit", "skip"]


class Target(Struct, frozen=True):
    """The one who is to answer.

    Args:
        kind: `user`, `assistant`, or `assistant_with_escalation`: then its no to a yes/no question goes to the user.
        assistant: Settings of the model that answers, as in the configuration: `model`, `system_prompt`, `request`. In a program `model`
            may also be an id or a model object. Without a `model`, the main model answers. `Agent` and `Inquirer` check the settings.
    """

    kind: TargetKind = "user"
    assistant: Mapping[str, Any] | None = None


class DetachedPolicies(Struct, frozen=True):
    """The policies where no one is attached, by kind of prompt (the built-in values)."""

    run: DetachedPolicy = "deny"
    deliver: DetachedPolicy = "auto"
    tool: DetachedPolicy = "auto"


class Words(Struct, frozen=True):
    """A configured answer as it was typed: what it means is up to the question that it answers."""

    text: str


class QuestionPolicy(Struct, frozen=True):
    """Configuration of one question; `origin` is the file or flag that set `answer`, `deadline` is in seconds.

    `people` replace those that the tool's author proposes.
    """

    target: Target = Target()
    answer: Json | SecretValue | Words | UnsetType = UNSET
    origin: str | None = None
    exclusive: bool | None = None
    prompt_label: str | None = None
    deadline: float | None = None
    people: People | None = None


_NOTHING_SAID = QuestionPolicy()


class ToolPolicy(Struct, frozen=True, kw_only=True):
    """Configuration of one tool, resolved: `questions` are by id, `'*'` for every other id.

    `rules` decide by the arguments of a call, in place of `run`; the later origin is the higher one.
    `is_program`: what a model sends becomes the words and the input of a program, so that control characters in it are refused.
    `deadline` says within how many seconds its calls have to be allowed. A tool that returns its questions runs again when no one has
    answered them in time, where it `takes_deadlines`.
    `definition` is the fingerprint of the program behind the tool; `is_local`: a file of the project defines or is it.
    `arguments_schema` is the JSON Schema that edited arguments have to fit.
    """

    source: Source
    run: RunPolicy = "ask"
    rules: tuple[RunRules, ...] = ()
    result: ResultPolicy = "unattended"
    detached: DetachedPolicies = DetachedPolicies()
    questions: Mapping[str, QuestionPolicy] = {}
    is_program: bool = False
    deadline: float | None = None
    takes_deadlines: bool = False
    definition: str = ""
    is_local: bool = False
    arguments_schema: JsonObject | None = None

    def schema_for(self, arguments: Json) -> JsonObject | None:  # noqa: ARG002  other policies look at them
        """Return the JSON Schema that edited arguments of a call have to fit, by the arguments of its model; None if it is not known."""
        return self.arguments_schema

    def ruling(self, arguments: Json) -> Ruling:
        """Say whether a call with these arguments may run, and which rule says so."""
        otherwise = Ruling(self.run)
        return strictest(otherwise, self.rules, arguments, self.definition) if self.rules else otherwise

    def question(self, id: str) -> QuestionPolicy:
        """Return what applies to the question `id`."""
        if not self.questions:
            return _NOTHING_SAID
        return self.questions.get(id) or self.questions.get("*") or _NOTHING_SAID
