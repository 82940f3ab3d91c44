"""Oracle for the questions of one scripted call: who answers them, and what is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from support.turn_expected import REST, CallLog, Pair
from support.turn_group import group_outcome
from support.turn_oracle_state import Refused, TurnOver, TurnState
from support.turn_people import (
    LOST,
    MODEL,
    OVERLOADED,
    Does,
    Reaction,
    Says,
    manner_of,
    model,
    person,
)
from support.turn_script import CONFIGURED, DEFAULTS, VALUES, Ask, Called, Rule, Tool, Value

NOBODY_THERE = (
    "{tool} cannot run because no interactive terminal is available. Do not retry this tool call in"
    " this turn; continue without user input or explain what information is missing."
)
HUMAN_ONLY = (
    "{tool} requires a human answer and cannot be routed to the assistant. Do not retry this tool"
    " call in this turn."
)
INVALID = (
    "{tool}: the configured conversation.tools.{tool}.questions.{id}.answer value does not match"
    " the question's answer_type. Update the configuration; do not retry."
)
EXCEEDED = (
    "{tool}: stopped after {count} {what} (limits.{setting}). Do not retry this tool call in this"
    " turn."
)
REJECTED = (
    "The `{tool}` call was reviewed by a secondary assistant ({model}) and rejected.\n\nQuestion:"
    " {text}"
)
REFUSED_BY_USER = "The user reviewed the `{tool}` call and rejected it.\n\nQuestion: {text}"


class Asked(NamedTuple):
    """A question that is asked now."""

    question: Ask
    time: int
    revises: bool
    can_go_back: bool
    link: bool = False
    heading: str = ""
    said: Says | None = None  # the model's answer that an escalation reviews


class Last(NamedTuple):
    """The last question of a call and its answer."""

    text: str
    value: Value
    by: str
    reason: str | None


class QuestionOracle:
    """Computes the questions of one call. With `given_up`, nobody has the time to answer, and
    `ask` returns None if a person or model would.
    """

    def __init__(self, state: TurnState, called: Called, tool: Tool, log: CallLog) -> None:
        self._state = state
        self._seen = state.seen
        self._called = called
        self._tool = tool
        self._log = log
        self._emissions = Counter[Ask]()
        self._times = Counter[Ask]()
        self._had: set[tuple[Ask, Value]] = set()
        self._reasons: list[Says] = []
        self._last: Last | None = None
        state.calls += 1
        self._number = state.calls
        self.backs = 0
        self.given_up = False
        self.agreed: Ask | None = None
        """The question that the permission of the call also answered with yes. This counts once."""

    def ask(
        self, question: Ask, *, revises: bool, can_go_back: bool, again: bool
    ) -> tuple[Reaction, str] | None:
        """Return the outcome of a question and the responder. `again`: this walk has already
        asked it.
        """
        bare = question.bare
        self._emissions[bare] += not again
        self.backs += revises
        self._seen["the same question again"] += self._emissions[bare] > 1
        asked = Asked(bare, self._times[bare], revises, can_go_back)
        limit = self._state.script.limits.repeats
        if self._emissions[bare] > limit:
            self._seen["the limit of repeats"] += 1
            raise self._exceeded(asked, limit, "identical questions", "repeats")
        self._times[bare] += bare.kind != "secret"
        found = self._routed(asked)
        if found is None:  # no answer, and no record that counts
            self._last = None
            self._times[bare] -= bare.kind != "secret"
        elif bare.kind == "secret" and found[0] == Does("back"):
            self._times[bare] += 1
        return found

    # The table
    # ----------------------------------------------------------------------------------------------

    def _routed(self, asked: Asked) -> tuple[Reaction, str] | None:
        question, rule = asked.question, self._tool.rule(asked.question.id)
        if question.of:
            return self._by_people(asked)
        if not asked.revises:
            known = self._known(asked, rule)
            if known:
                return known
        if (
            question == self.agreed
            and not asked.revises
            and rule.target == "user"
            and self._emissions[question] == 1
        ):
            self._seen["a foretold question that is asked"] += 1
            return self._answered(asked, Says(True), "user")
        breaker = self._state.breaker_is_open and not asked.revises
        target = "user" if asked.revises or breaker else rule.target
        human_only = (
            breaker
            or question.kind == "secret"
            or (question.exclusive if rule.exclusive is None else rule.exclusive)
        )
        self._seen["the breaker asks a person"] += breaker and rule.target != "user"
        if target != "user" and human_only:
            self._seen["a question only for people"] += 1
            raise self._cancelled(asked, "assistant_routing_denied", HUMAN_ONLY)
        if target != "user":
            return self._by_model(
                asked,
                escalates=target == "assistant_with_escalation" and question.kind == "boolean",
            )
        return self._by_person(asked, human_only=human_only, breaker=breaker)

    def _by_people(self, asked: Asked) -> tuple[Reaction, str]:
        """Ask several people. Remembered and configured answers do not count, and the question
        waits unless the policy is `deny`.
        """
        question = asked.question
        if not self._state.script.attached and self._tool.detached["tool"] == "deny":
            return self._nobody_there(
                asked, breaker=self._state.breaker_is_open and not asked.revises
            )
        assert question.of
        found = group_outcome(
            question.of,
            asked.time,
            is_yes_or_no=question.kind == "boolean",
            is_timed=question.timed,
        )
        self._seen[f"people: {found.end}"] += 1
        self._seen["several votes"] += len(found.voters) > 1
        self._seen["people who may not"] += not all(found.counts)
        self._log.votes += [found.voters] if found.voters else []
        match found.end:
            case "late":
                raise self._late(asked)
            case "reply":
                self._pair(asked, ("cancelled", None, "reply"))
                self._last = None
                return Does("reply"), "user"
            case end:
                return self._answered(asked, Says(VALUES[question.kind][end == "no"]), "user")

    def _nobody_there(self, asked: Asked, *, breaker: bool) -> tuple[Reaction, str]:
        if breaker:
            self._seen["the breaker stops the turn"] += 1
            self._state.stopped = True
            raise self._exceeded(
                asked,
                self._state.script.limits.rejected_cycles,
                "rejections in a row",
                "rejected_cycles",
            )
        raise self._cancelled(asked, "detached_denied", NOBODY_THERE)

    def _late(self, asked: Asked) -> Refused:
        self._seen["a deadline that passes"] += 1
        error = (
            f'{{tool}}: nobody answered "{asked.question.text}" before its deadline. This is not'
            " a no."
        )
        return self._cancelled(asked, "deadline", error)

    def _known(self, asked: Asked, rule: Rule) -> tuple[Reaction, str] | None:
        """Rows 1 to 3 of the routing table: remembered and configured answers."""
        question = asked.question
        remembered = (
            self._state.answers.get((self._tool.name, question.id)) if question.remembers else None
        )
        if remembered is not None and (question, remembered) not in self._had:
            self._seen["a remembered answer"] += 1
            return self._answered(asked, Says(remembered), "cached")
        if rule.configured == "fits":
            self._seen["a configured answer"] += 1
            return self._answered(asked, Says(CONFIGURED[question.kind]), "static")
        if rule.configured == "misfits":
            self._seen["a configured answer that does not fit"] += 1
            raise self._cancelled(asked, "invalid_static_answer", INVALID)
        return None

    def _by_person(
        self, asked: Asked, *, human_only: bool, breaker: bool
    ) -> tuple[Reaction, str] | None:
        """Rows 6 and 7 of the routing table; without a person, the remaining rows."""
        script, waits = self._state.script, self._tool.detached["tool"] == "defer"
        if waits and not script.attached:
            self._seen["detached: defer"] += 1
            self._seen[f"a question that waits: {script.later}"] += 1
        if script.attached or (waits and script.later == "attach"):
            if self.given_up:
                return None
            if self._prompted(asked) != "away":
                return self._deed(asked)
        if waits:
            return self._deed(asked)
        if asked.link:
            return self._without_review(asked)
        return self._detached(asked, human_only=human_only, breaker=breaker)

    def _without_review(self, link: Asked) -> tuple[Reaction, str]:
        """Handle an escalation that nobody can be shown: the model's answer remains, unless the
        policy is `defaults`.
        """
        self._seen["a review that nobody could be shown"] += 1
        if self._tool.detached["tool"] == "defaults" and link.question.has_default:
            return self._answered(link, Says(DEFAULTS[link.question.kind]), "default")
        if link.said:
            self._pair(link, ("cancelled", None, "no_prompt_backend"))
            return link.said, "assistant"
        error = (
            f'{{tool}}: the assistant that was asked "{link.question.text}" failed to answer:'
            f" {OVERLOADED}."
        )
        raise self._cancelled(link, "backend_error", error)

    def _prompted(self, asked: Asked) -> str:
        """Open a prompt; return how it behaves."""
        how = manner_of(self._state.script, self._called, asked.question, asked.time)
        self._seen[f"a prompt: {how}"] += 1
        if how in ("raises", "three misfits"):
            error = f"{LOST}." if how == "raises" else REST
            raise self._cancelled(
                asked,
                "backend_error",
                f'{{tool}}: the prompt for "{asked.question.text}" failed: {error}',
            )
        return how

    def _deed(self, asked: Asked) -> tuple[Reaction, str]:
        """Apply the reaction of a person."""
        deed = person(
            self._called, asked.question, asked.time, can_go_back=asked.can_go_back, link=asked.link
        )
        if deed == Does("end"):
            self._seen["End Turn at an escalation"] += asked.link
            raise TurnOver("End Turn at a question")
        if deed == Does("late"):
            raise self._late(asked)
        match deed:
            case Says(value):
                if deed.remember:
                    self._state.answers[self._tool.name, asked.question.id] = value
                self._seen["an optional question that is skipped"] += value is None
                return self._answered(asked, deed, "user")
            case Does(what):
                self._pair(asked, ("cancelled", None, what))
                self._last = None
                return deed, "user"

    def _detached(
        self, asked: Asked, *, human_only: bool, breaker: bool
    ) -> tuple[Reaction, str] | None:
        """Rows 8 to 12 of the routing table."""
        question, policy = asked.question, self._tool.detached["tool"]
        if breaker:
            self._seen["the breaker stops the turn"] += 1
            self._state.stopped = True
            raise self._exceeded(
                asked,
                self._state.script.limits.rejected_cycles,
                "rejections in a row",
                "rejected_cycles",
            )
        if human_only:
            raise self._cancelled(asked, "no_prompt_backend", NOBODY_THERE)
        self._seen[f"detached: {policy}"] += 1
        if policy == "auto":
            return self._by_model(asked, escalates=False)
        if policy == "defaults" and question.has_default:
            return self._answered(asked, Says(DEFAULTS[question.kind]), "default")
        raise self._cancelled(
            asked, "no_default" if policy == "defaults" else "detached_denied", NOBODY_THERE
        )

    # Models
    # ----------------------------------------------------------------------------------------------

    def _by_model(self, asked: Asked, *, escalates: bool) -> tuple[Reaction, str] | None:
        if self.given_up:
            return None
        self._seen["a model is asked on the side"] += 1
        match model(self._called, asked.question, asked.time):
            case Does("interrupted"):
                raise TurnOver("Ctrl-C while a model is asked on the side")
            case Says(value, reason) as said:
                found = self._answered(asked, said, "assistant")
                if not escalates or value is not False:
                    return found
                quoted = (
                    f'The assistant recommended rejecting this:\n"{reason or "(no reason given)"}"'
                )
                return self._escalated(asked._replace(said=said), quoted, "a no") or found
            case _:
                error = (
                    f'{{tool}}: the assistant that was asked "{asked.question.text}" failed to'
                    f" answer: {OVERLOADED}."
                )
                refused = self._cancelled(asked, "backend_error", error)
                self._seen["a model that fails"] += 1
                heading = (
                    "The assistant that was asked first could not answer. The decision is yours."
                )
                found = self._escalated(asked, heading, "a failure") if escalates else None
                if found:
                    return found
                raise refused

    def _escalated(self, asked: Asked, heading: str, what: str) -> tuple[Reaction, str] | None:
        """Ask a person instead of the model; return None if the policy allows no person."""
        script, policy, has_default = (
            self._state.script,
            self._tool.detached["tool"],
            asked.question.has_default,
        )
        self._seen[f"{what} escalated: {'attached' if script.attached else policy}"] += 1
        link = asked._replace(link=True, heading=heading, revises=False)
        if script.attached or policy == "defer":
            return self._by_person(link, human_only=True, breaker=False)
        if policy == "defaults" and has_default:
            return self._answered(link, Says(DEFAULTS[asked.question.kind]), "default")
        return None

    # How it closes
    # ----------------------------------------------------------------------------------------------

    def _answered(self, asked: Asked, says: Says, by: str) -> tuple[Reaction, str]:
        question = asked.question
        self._state.answered(by, says.value)
        self._last = Last(question.text, says.value, by, says.reason)
        if question.kind == "secret" and says.value is not None:
            self._seen["a secret"] += 1
            self._log.secrets += 1
            return says, by
        self._had.add((question, says.value))
        if by == "user" and says.value is False and says.reason:
            self._reasons.append(says)
        remembered = question.remembers and asked.time == 0 and by in ("user", "cached")
        self._pair(asked, ("answered", says.value, "person" if remembered else by))
        return says, by

    def _pair(self, asked: Asked, outcome: tuple[str, Value, str]) -> None:
        if asked.question.kind != "secret":
            self._log.pairs.append(Pair(asked.question.id, asked.revises, asked.link, outcome))

    def _cancelled(self, asked: Asked, reason: str, message: str) -> Refused:
        self._last = None
        self._pair(asked, ("cancelled", None, reason))
        return Refused(
            reason, message.replace("{tool}", self._tool.name).replace("{id}", asked.question.id)
        )

    def _exceeded(self, asked: Asked, count: int, what: str, setting: str) -> Refused:
        error = (
            EXCEEDED.replace("{count}", str(count))
            .replace("{what}", what)
            .replace("{setting}", setting)
        )
        return self._cancelled(asked, "limit_exceeded", error)

    # What the model reads of it
    # ----------------------------------------------------------------------------------------------

    def take_back(self, discarded: Sequence[Reaction]) -> None:
        """Forget the reasons given with answers that Back has discarded."""
        self._reasons = [
            says for says in self._reasons if not any(says is deed for deed in discarded)
        ]

    def explained(self, content: str, *, is_error: bool, by_the_tool: bool = True) -> str:
        """Add the reasons of people and models to the result of a call."""
        reasons = [says.reason for says in self._reasons]
        if (
            by_the_tool
            and is_error
            and self._last
            and self._last.value is False
            and self._last.by in ("assistant", "user")
        ):
            content = self._rejection(self._last, content)
            if self._last.by == "user" and self._last.reason:
                reasons.pop()
        return "\n".join([content, *(f'The user added: "{reason}"' for reason in reasons)])

    def _rejection(self, last: Last, content: str) -> str:
        self._seen[f"a no of a {last.by} explained"] += 1
        head = (REJECTED if last.by == "assistant" else REFUSED_BY_USER).format(
            tool=self._tool.name, model=MODEL, text=last.text
        )
        reason = f'\nReason: "{last.reason}"' if last.reason else ""
        tail = (
            "\nYou may retry with different input, or ask the user to review."
            if last.by == "assistant"
            else ""
        )
        return f"{head}{reason}\n\n{content}{tail}"
