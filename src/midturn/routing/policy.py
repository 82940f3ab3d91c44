"""The configuration that the routing table uses: targets, static answers and permissions."""

# No `from __future__ import annotations`: msgspec would compile each annotation from its text at
# every start.
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
    """Responder of a question: the user or a model.

    Args:
        kind: `user`, `assistant`, or `assistant_with_escalation`. With escalation, the user is also
            asked if the model answers no to a yes/no question.
        assistant: Settings for the model that answers, as in the configuration: `model`,
            `system_prompt`, `request`. In a program, `model` may also be an id or a model object.
            Without `model`, the main model answers. `Agent` and `Inquirer` validate the settings.
    """

    kind: TargetKind = "user"
    assistant: Mapping[str, Any] | None = None


class DetachedPolicies(Struct, frozen=True):
    """Policies for detached runs, by kind of prompt, with the built-in defaults."""

    run: DetachedPolicy = "deny"
    deliver: DetachedPolicy = "auto"
    tool: DetachedPolicy = "auto"


class Words(Struct, frozen=True):
    """A configured answer as text. The question's type determines how the text is parsed."""

    text: str


class QuestionPolicy(Struct, frozen=True):
    """Configuration of one question.

    `origin` is the file or flag that set `answer`. `deadline` is in seconds. `people` replaces the
    people that the tool's author specified.
    """

    target: Target = Target()
    answer: Json | SecretValue | Words | UnsetType = UNSET
    origin: str | None = None
    exclusive: bool | None = None
    prompt_label: str | None = None
    deadline: float | None = None
    people: People | None = None


_DEFAULT_POLICY = QuestionPolicy()


class ToolPolicy(Struct, frozen=True, kw_only=True):
    """Resolved configuration of one tool.

    Attributes:
        source: Source of the tool's questions.
        run: Permission policy that applies if no rule matches.
        rules: Rules that depend on the arguments of a call. They take precedence over `run`. If
            rules from several origins match, the strictest one applies.
        result: Policy for delivering results to the model.
        detached: Policies for runs in which nobody is attached.
        questions: Configuration by question id. `'*'` applies to all other ids.
        is_program: Whether the tool is a program that receives the arguments on its command line
            and as input. Control characters are then rejected.
        deadline: Number of seconds within which a call must be approved.
        takes_deadlines: Whether the tool runs again when one of its questions expires. Applies
            to tools that return questions as their result.
        definition: Fingerprint of the tool's program.
        is_local: Whether a file in the project defines the tool.
        arguments_schema: JSON Schema for edited arguments.
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

    def schema_for(self, arguments: Json) -> JsonObject | None:  # noqa: ARG002  used by subclasses
        """Return the JSON Schema for edited arguments of a call, or None if it is unknown."""
        return self.arguments_schema

    def ruling(self, arguments: Json) -> Ruling:
        """Return whether a call with these arguments may run, and the rule that decides."""
        otherwise = Ruling(self.run)
        return (
            strictest(otherwise, self.rules, arguments, self.definition)
            if self.rules
            else otherwise
        )

    def question(self, id: str) -> QuestionPolicy:
        """Return the policy of the question `id`."""
        if not self.questions:
            return _DEFAULT_POLICY
        return self.questions.get(id) or self.questions.get("*") or _DEFAULT_POLICY
