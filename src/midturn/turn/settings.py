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
        tools: The policy of each offered tool. A call of any other tool is answered with an
            error.
        conversation: ID of the conversation.
        attached: Whether a person is attached.
        at_prompt: The attached person who replies to prompts. Decisions that this person may not
            make are not shown.
        directory: The configured people.
        answerers: The configured people in a process that only records answers. They are used to
            check responders. Unlike `directory`, they are not used to write requests.
        limits: The limits of the turn.
        prompts_at_once: Maximum number of open prompts. A terminal shows one.
        previewing: Tools that can return their first question before they run.
        own_rules: Names of the tools whose rule is a Python function (`@tool(run=…)`).
        knows_rules: Whether this process knows the rules of the tools. False in a process that only
            records answers.
        rules_of_edits: Returns the ruling on edited arguments. Set in a process that only records
            answers, if it knows the rules.
        start: The first event of a new turn.
        family: Records of the outer and nested turns of this turn. The key is the ID of the event
            that refers to the turn. All these turns share the limits of questions shown and of
            model calls.
        standing: The decisions that hold for the rest of the conversation, as of the start of the
            turn.
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
        """The configured people whose answers count."""
        return self.answerers or self.directory

    @property
    def names_people(self) -> bool:
        """Whether a configuration names the people who are asked."""
        return self.directory is not None and bool(self.directory.people)

    def filled_in(self, people: People) -> People:
        """Return the people of a question as they are recorded.

        If there is a configuration, it defines the members of each group. Members that the
        program defines are ignored.
        """
        return people if self.directory is None else self.directory.filled_in(people)
