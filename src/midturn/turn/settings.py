"""Settings of a turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from midturn.events.types import AnsweredBy, Standing, TurnStart
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits
from midturn.question.people import Directory, People
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn.record import TurnRecord


class TurnSettings(Struct, frozen=True, kw_only=True):
    """Settings of one turn.

    Args:
        tools: The policy of each tool that the model may call. A call to any other tool returns an
            error.
        conversation: ID of the conversation.
        attached: Whether a person is attached.
        at_prompt: The attached person. Decisions that this person may not make are not shown at the
            prompt.
        directory: The configured people.
        answerers: The configured people in a process that only records answers. Used to check
            responders, but unlike `directory` not to write requests.
        limits: The limits of the turn.
        prompts_at_once: Maximum number of open prompts. A terminal shows one.
        previewing: Names of the tools that can return their first question before they run.
        own_rules: Names of the tools whose rule is a Python function (`@tool(run=…)`).
        knows_rules: Whether this process has the rules of the tools. False in a process that only
            records answers.
        rules_of_edits: Evaluates the rules for edited arguments. Set in a process that only records
            answers, if it has the rules.
        start: The first event of a new turn.
        family: The records of this turn's outer and nested turns, by the ID of the event that
            refers to the turn. All these turns share the limits on questions shown and on model
            calls.
        standing: The standing decisions of the conversation at the start of the turn.
    """

    tools: Mapping[str, ToolPolicy]
    conversation: str = ""
    attached: bool = True
    at_prompt: AnsweredBy = AnsweredBy("user")
    directory: Directory | None = None
    answerers: Directory | None = None
    limits: Limits = DEFAULT_LIMITS
    prompts_at_once: int = 1
    previewing: frozenset[str] = frozenset()
    own_rules: frozenset[str] = frozenset()
    knows_rules: bool = True
    rules_of_edits: Callable[[Json], Ruling] | None = None
    start: TurnStart = TurnStart()
    family: dict[str, TurnRecord] = {}
    standing: tuple[Standing, ...] = ()

    @property
    def known_people(self) -> Directory | None:
        """The configured people against whom responders are checked."""
        return self.answerers or self.directory

    @property
    def names_people(self) -> bool:
        """Whether the configuration defines people."""
        return self.directory is not None and bool(self.directory.people)

    def filled_in(self, people: People) -> People:
        """Return the people of a question in their recorded form.

        If people are configured, the configuration defines the members of each group, and members
        that the program defines are ignored.
        """
        return people if self.directory is None else self.directory.filled_in(people)
