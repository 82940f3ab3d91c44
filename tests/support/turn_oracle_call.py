"""Oracle for one call of a scripted turn: permission, answers, and the result that the model
reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from support.turn_expected import REST, CallLog, Result
from support.turn_group import group_outcome
from support.turn_oracle_question import NOBODY_THERE, QuestionOracle
from support.turn_oracle_state import CallOver, Refused, TurnOver, TurnState
from support.turn_people import (
    ARGUMENTS,
    EDITED,
    EDITED_RESULT,
    LOST,
    Does,
    Reaction,
    Says,
    delivery,
    manner_of_decision,
    permission,
    review,
)
from support.turn_script import (
    Ask,
    Awaits,
    Called,
    Ends,
    GivesUp,
    Heard,
    Returns,
    Round,
    Stuck,
    Tool,
    Value,
    previewed_question,
    running,
)


class CallOracle:
    """Computes one call. A `QuestionOracle` computes its questions."""

    def __init__(self, state: TurnState, called: Called, tool: Tool, log: CallLog) -> None:
        self._state = state
        self._seen = state.seen
        self._called = called
        self._tool = tool
        self._log = log
        self._questions = QuestionOracle(state, called, tool, log)
        self._answers: dict[str, Value] = {}
        self._said: dict[str, Value] = {}
        self._arguments = ARGUMENTS

    def play(self) -> Result:
        """Return the result that the model reads, or raise the exception that ends the call."""
        name = self._tool.name
        if self._tool.run == "skip":
            self._seen["run = skip"] += 1
            raise CallOver(f"{name} is switched off by configuration.")
        if self._called.broken:
            self._seen["broken arguments"] += 1
            raise CallOver(f"{name}: the arguments are not a JSON object{REST}")
        if self._tool.run == "ask":
            self._permission()
        content, is_error = self._runs()
        explained = self._questions.explained(content, is_error=is_error)
        if self._arguments == EDITED:
            note = (
                "The user edited the arguments of this"
                f" call{' to' if is_error else '. It ran with'}: "
            )
            explained = f"{note}{json.dumps({'text': EDITED})}\n{explained}"
        return self._delivered(explained, is_error=is_error)

    # Running
    # ----------------------------------------------------------------------------------------------

    def _runs(self) -> tuple[str, bool]:
        """Run the tool with the answers so far, until it is done."""
        for times in range(1, 100):
            self._log.given.append(("run", dict(self._answers)))
            self._seen["a chain of returned questions"] += times > 2
            ends = self._run()
            if ends:
                return ends.content, ends.fails
        raise AssertionError("this tool asks for ever")

    def _run(self) -> Ends | None:
        """Run the tool once; return None if it has to run again."""
        tool = running(self._called, self._arguments, dict(self._answers))
        act = next(tool)
        while True:
            match act:
                case Returns(asked):
                    self._round(asked)
                    return None
                case Awaits(rounds):
                    self._seen["several asks at once"] += len(rounds) > 1
                    act = tool.send(
                        [self._awaited(number, asked) for number, asked in enumerate(rounds)]
                    )
                case GivesUp(asked):
                    self._given_up(asked)
                    self._seen["an ask that is given up"] += 1
                    act = tool.send([])
                case Ends(left=left):
                    if left:
                        self._seen["a tool that leaves a question open"] += 1
                        self._given_up(left)
                    return act
                case Stuck():
                    raise TurnOver("Ctrl-C while a tool works", asked=False)

    def _awaited(self, _: int, asked: Round) -> Heard:
        try:
            given = self._round(asked)
        except Refused as refused:
            self._seen["try_ask without an answer"] += 1
            missing = [
                question.id for question in asked.questions if question.id not in refused.given
            ]
            given = dict.fromkeys(missing, f"none: {refused.reason}") | refused.given
        self._log.given.append(("ask", dict(given)))
        return given

    def _given_up(self, asked: Round) -> None:
        """Handle a round that is abandoned at once: only answers without a person arrive."""
        (question,) = asked.questions
        self._questions.given_up = True
        try:
            given = self._round(asked)
        except Refused as refused:
            given = {question.id: f"none: {refused.reason}"}
        self._questions.given_up = False
        if given:
            self._log.given.append(("ask", dict(given)))

    # A round of questions
    # ----------------------------------------------------------------------------------------------

    def _round(self, asked: Round) -> Heard:
        """Process a round. A refusal fails the call, unless the tool wants to be told."""
        try:
            answers = self._walk(asked)
        except Refused as refused:
            if asked.how in ("try", "told") or (
                asked.how == "await" and refused.reason == "deadline"
            ):
                raise
            raise CallOver(
                self._questions.explained(refused.message, is_error=True, by_the_tool=False)
            ) from refused
        self._answers |= answers
        return answers

    def _walk(self, asked: Round) -> dict[str, Value]:
        questions = asked.questions
        given: dict[int, tuple[Value, bool]] = {}
        said: dict[int, Reaction] = {}
        at, went_back, emitted = 0, False, set[int]()
        self._seen["a form"] += len(questions) > 1
        while True:
            at = self._next(questions, given, at)
            people = [place for place in given if place < at and given[place][1]]
            if at == len(questions):
                if not (asked.review and people) or not self._review_goes_back(asked, given):
                    return {
                        q.id: given[place][0] if place in given else None
                        for place, q in enumerate(questions)
                    }
                at, went_back = max(people), True
                continue
            for question in questions if not emitted else questions[at : at + 1]:
                self._said.pop(question.id, None)
            try:
                deed = self._questions.ask(
                    questions[at], revises=went_back, can_go_back=bool(people), again=at in emitted
                )
            except Refused as refused:
                if refused.reason == "deadline":
                    refused.given = {
                        questions[place].id: value
                        for place, (value, _) in given.items()
                        if place < at
                    }
                raise
            emitted.add(at)
            went_back = False
            if deed is None:
                return {}
            match deed:
                case Says(value), by:
                    self._questions.take_back(
                        [earlier for place, earlier in said.items() if place >= at]
                    )
                    for place in range(at, len(questions)):
                        self._said.pop(questions[place].id, None)
                    self._said[questions[at].id] = value if questions[at].kind != "secret" else None
                    said = {place: earlier for place, earlier in said.items() if place < at} | {
                        at: deed[0]
                    }
                    given = {place: answer for place, answer in given.items() if place < at}
                    given[at] = (value, by == "user")
                    at += 1
                case Does("back"), _:
                    self._seen["Back"] += 1
                    at, went_back = max(people), True
                case Does("reply"), _:
                    self._reply(asked, given)
                case _:
                    raise AssertionError(deed)

    def _next(self, questions: Sequence[Ask], given: dict[int, tuple[Value, bool]], at: int) -> int:
        """Return the index of the next question whose gate is open."""
        for place in range(at, len(questions)):
            gate = questions[place].gate
            if place in given or gate is None:
                return place
            value = given[gate[0]][0] if gate[0] in given else None
            if value == gate[1]:
                return place
            self._seen["a gate that is shut"] += 1
        return len(questions)

    def _reply(self, asked: Round, given: dict[int, tuple[Value, bool]]) -> None:
        self._seen["Reply to a tool" if asked.how == "try" else "Reply"] += 1
        answered = {
            q.id: given[place][0]
            for place, q in enumerate(asked.questions)
            if place in given and q.kind != "secret"
        }
        plain = {key: value for key, value in answered.items() if value is not None}
        own = {question.id for question in asked.questions}
        before = {
            key: value for key, value in self._said.items() if value is not None and key not in own
        }
        self._seen["Reply after something else was answered"] += bool(before)
        marker = json.dumps({"cancelled": True, "answered": before | plain, "reply": "Never mind."})
        if asked.how == "try":
            raise Refused(f"reply: Never mind. {marker}", "")
        raise CallOver(self._questions.explained(marker, is_error=False), is_error=False)

    def _review_goes_back(self, asked: Round, given: dict[int, tuple[Value, bool]]) -> bool:
        """Show the review of all answers; return whether the person goes back."""
        self._seen["a review"] += 1
        deed = review(self._called, self._questions.backs)
        is_theirs = any(
            question.of and question.of.only
            for place, question in enumerate(asked.questions)
            if place in given
        )
        if not is_theirs or (
            self._tool.detached["deliver"] == "deny" and not self._state.script.attached
        ):
            decided = self._decision("review", "deliver", deed, "Send these answers?")
        elif deed == Does("end"):
            raise TurnOver("End Turn at review")
        else:
            decided = deed
        match decided:
            case Does("back"):
                self._seen["Back at a review"] += 1
                return True
            case Does("reply"):
                self._seen["Reply to a tool at a review"] += asked.how == "try"
                self._reply(asked, given)
            case _:
                pass
        return False

    # Approvals
    # ----------------------------------------------------------------------------------------------

    def _permission(self) -> None:
        name, remembered = self._tool.name, self._state.permissions.get(self._tool.name)
        if remembered:
            self._seen["a remembered permission"] += 1
        if (
            not remembered
            and (refused := self._state.refused_before[name]) >= self._state.script.limits.repeats
        ):
            self._seen["a call that was refused too often"] += 1
            self._log.decisions.append(
                ("run", "skipped", "person" if self._tool.permits else "cached")
            )
            again = "Do not retry this tool call in this turn."
            raise CallOver(
                f"{name} was not run: the same call was refused {refused} times in this turn."
                f" {again}"
            )
        told = previewed_question(self._called)
        text = told.text if told else f"Run {name}?"
        if self._tool.of and (self._state.script.attached or self._tool.detached["run"] != "deny"):
            deed = self._permission_by_people()
        else:
            deed = (
                Says(remembered == "y")
                if remembered
                else self._decision("run", "run", permission(self._called), text)
            )
        if told and isinstance(deed, Says) and deed.value and not remembered:
            self._seen["a foretold question that has its yes"] += 1
            self._questions.agreed = told
        if isinstance(deed, Says) and deed.remember:
            self._state.permissions[name] = "y" if deed.value else "n"
        who = "person" if remembered or (isinstance(deed, Says) and deed.remember) else "user"
        match deed:
            case Does("late"):
                self._seen["a permission past its deadline"] += 1
                self._log.decisions.append(("run", "expired", ""))
                raise CallOver(f"{name}: nobody allowed it before its deadline. This is not a no.")
            case Does("edit"):
                self._seen["edited arguments"] += 1
                self._arguments = EDITED
                self._log.decisions.append(("run", "edited", "user"))
            case Says(False, reason):
                self._seen["a skipped call"] += 1
                self._state.refused[name] += not remembered
                self._log.decisions.append(("run", "skipped", who))
                raise CallOver(
                    f"{name} was skipped by the user." + (f' Reason: "{reason}"' if reason else "")
                )
            case Says():
                self._seen["an approved call"] += 1
                self._log.decisions.append(("run", "approved", who))
            case _:
                self._log.decisions.append(("run", "approved", "default"))

    def _permission_by_people(self) -> Reaction:
        assert self._tool.of
        found = group_outcome(
            self._tool.of, 0, is_yes_or_no=True, is_permission=True, is_timed=self._tool.timed
        )
        self._seen[f"people permit: {found.end}"] += 1
        self._log.votes += [found.voters] if found.voters else []
        return (
            Says(found.end == "yes")
            if found.end in ("yes", "no")
            else Does("late" if found.end == "late" else "edit")
        )

    def _delivered(self, content: str, *, is_error: bool) -> Result:
        if self._tool.result == "unattended":
            return Result(content, is_error)
        if self._tool.result == "skip":
            self._seen["result = skip"] += 1
            return Result(
                f"The result of {self._tool.name} was withheld by the user.", is_error=True
            )
        match self._decision(
            "deliver",
            "deliver",
            delivery(self._called),
            f"Deliver the result of {self._tool.name}?",
        ):
            case Does("edit"):
                self._seen["an edited result"] += 1
                self._log.decisions.append(("deliver", "edited", "user"))
                return Result(EDITED_RESULT, is_error)
            case Says(False):
                self._seen["a withheld result"] += 1
                self._log.decisions.append(("deliver", "skipped", "user"))
                return Result(
                    f"The result of {self._tool.name} was withheld by the user.", is_error=True
                )
            case Says():
                self._seen["a delivered result"] += 1
                self._log.decisions.append(("deliver", "approved", "user"))
            case _:
                self._log.decisions.append(("deliver", "approved", "default"))
        return Result(content, is_error)

    def _decision(self, kind: str, policy: str, deed: Reaction, text: str) -> Reaction | None:
        """Ask a person, or follow the detached policy. None means to proceed as the policy says."""
        script = self._state.script
        how = manner_of_decision(script, self._called, kind)
        rule = self._tool.detached[policy]
        there = script.attached or script.later == "attach"
        if there and how in ("raises", "three misfits"):
            self._seen[f"a prompt that fails: {how}"] += 1
            raise CallOver(
                f'{self._tool.name}: the prompt for "{text}" failed:'
                f" {f'{LOST}.' if how == 'raises' else REST}"
            )
        if (there and how != "away") or rule == "defer":
            self._seen[f"{kind} that waits"] += not there or how == "away" or not script.attached
            if deed == Does("end"):
                raise TurnOver(f"End Turn at {kind}")
            return deed
        self._seen[f"{kind} detached: {rule}"] += 1
        if rule != "deny":
            return None
        if kind != "review":
            self._log.decisions.append((kind, "skipped", "default"))
        if kind == "run":
            raise CallOver(
                f"{self._tool.name} was not run: nobody is here to allow it. Do not retry this tool"
                " call in this turn."
            )
        if kind == "deliver":
            raise CallOver(f"The result of {self._tool.name} was withheld by the user.")
        raise CallOver(NOBODY_THERE.replace("{tool}", self._tool.name))
