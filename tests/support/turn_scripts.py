"""Hypothesis strategies for random scripted turns. Each turn consists of a few scenes with
behaviour that is error-prone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, Literal, TypeAlias, get_args

from hypothesis import strategies as st
from msgspec.structs import replace

from support.turn_script import (
    VALUES,
    Ask,
    Called,
    GiveUp,
    GroupAction,
    How,
    Limits,
    Op,
    PeopleGroup,
    Policy,
    Program,
    Round,
    Rule,
    Script,
    Together,
    Tool,
    Until,
    What,
)

Scene: TypeAlias = "Callable[[Stage], list[list[Called]]]"
POLICIES: tuple[Policy, ...] = get_args(Policy)
KINDS = {"yes": "boolean", "sure": "boolean", "pick": "select", "note": "text", "key": "secret"}
TARGETS = ("user", "assistant", "assistant_with_escalation")
MEMORY = Round((Ask("mem", remembers=True),))
YES = Ask("yes")
SECOND, NO, FAILURE, REPLY = (
    4,
    6,
    10,
    12,
)  # moods: a person takes the second value, a model does, a model fails, a person replies
REPLY_AT_REVIEW = 10


class Stage:
    """State that all scenes of a script share, and helpers to draw values."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.attached: bool = self.pick(True, True, True, False, False)
        self.later: Literal["settle", "attach"] = (
            "settle" if self.attached else self.pick("settle", "settle", "attach")
        )
        self.few: bool = self.pick(
            False, False, False, True
        )  # limits the number of questions shown to a person
        self._tools = self._uniques = 0

    def pick(self, *choices: Any) -> Any:
        """Draw one of the choices; the first is the simplest."""
        return self.draw(st.sampled_from(choices))

    def several(self, make: Callable[[], Any], least: int, most: int) -> list[Any]:
        """Make between `least` and `most` values."""
        return [make() for _ in range(self.draw(st.integers(least, most)))]

    def tool(self, **terms: Any) -> Tool:
        """Return a new tool. If a person attaches later, every policy is `defer`."""
        self._tools += 1
        if "detached" not in terms:
            terms["detached"] = {
                kind: "defer" if self.later == "attach" else self.pick(*POLICIES)
                for kind in ("run", "deliver", "tool")
            }
        return Tool(name=f"t{self._tools}", **terms)

    def call(self, tool: Tool | None, *ops: Op, **terms: Any) -> Called:
        """Return a call of a tool with these operations. IDs repeat often."""
        end = {name: terms.pop(name) for name in ("end", "left") if name in terms}
        program = Program(ops, **(end or {"end": self.pick("succeeds", "fails")}))
        moods = tuple(self.draw(st.lists(st.integers(0, 15), min_size=1, max_size=6)))
        terms = {"moods": moods, "may_end": self.pick(False, False, False, False, True), **terms}
        return Called(tool=tool, id=self.pick("c1", "c2"), program=program, **terms)

    def kinds(self, tool: Tool) -> Sequence[str]:
        """Return the question IDs that a tool may use. A secret cannot be answered outside of a
        prompt.
        """
        settled = tool.detached["tool"] == "defer" and not self.attached and self.later == "settle"
        return [id for id in KINDS if not (settled and id == "key")]

    def ask(self, id: str, before: Sequence[Ask] = ()) -> Ask:
        """Draw a question. Its gate may refer to any earlier question that is not a secret."""
        kind = KINDS[id]
        gate = None
        named = [place for place, ask in enumerate(before) if ask.kind != "secret"]
        if named and self.pick(False, False, True):
            place = self.pick(*named)
            nothing = [None] if before[place].optional or before[place].gate else []
            gate = (place, self.pick(*VALUES[before[place].kind], *nothing))
        return Ask(
            id,
            kind,
            context=self.pick("", "", "+ a line"),
            has_default=kind != "secret" and self.pick(False, True),
            optional=self.pick(False, False, True),
            exclusive=self.pick(False, False, False, True),
            gate=gate,
        )

    def unique(self, tool: Tool) -> Ask:
        """Draw a question that is asked only once. Otherwise the next equal question would answer
        an abandoned one.
        """
        return self.only(self.ask(self.pick(*self.kinds(tool))))

    def only(self, ask: Ask) -> Ask:
        """Make a question unique by its context."""
        self._uniques += 1
        return replace(ask, context=f"for the {self._uniques}. time")

    def round(self, tool: Tool, how: How, least: int = 1, most: int = 3) -> Round:
        """Draw a round of questions."""
        ids = self.draw(
            st.lists(
                st.sampled_from(self.kinds(tool)),
                min_size=min(least, most),
                max_size=most,
                unique=True,
            )
        )
        asks: list[Ask] = []
        for id in ids:
            asks.append(self.ask(id, asks))
        return Round(tuple(asks), how, review=len(asks) > 1 and self.pick(False, True))


# Scenes: the calls of one or more cycles
# --------------------------------------------------------------------------------------------------


def chains(stage: Stage) -> list[list[Called]]:
    """A tool returns several rounds one after the other."""
    rules = {
        id: Rule(
            stage.pick(*TARGETS),
            stage.pick("", "", "", "fits", "misfits"),
            stage.pick(None, None, False),
        )
        for id in ("sure", "pick")
    }
    tool = stage.tool(rules=rules, run=stage.pick("unattended", "unattended", "ask"))
    return [[stage.call(tool, *stage.several(lambda: stage.round(tool, "return"), 1, 3))]]


def forms(stage: Stage) -> list[list[Called]]:
    """A person moves back and forth in a form."""
    tool = stage.tool()
    how = stage.pick("return", "await")
    return [
        [
            stage.call(
                tool,
                stage.round(tool, how, 2, 4),
                moods=tuple(stage.several(lambda: stage.pick(0, 4, 7, 9, 9, 9, 15), 2, 7)),
            )
        ]
    ]


def coroutines(stage: Stage) -> list[list[Called]]:
    """A coroutine asks several things, tries, and abandons questions."""
    tool = stage.tool()
    patient = (
        stage.few or tool.detached["tool"] == "defer"
    )  # abandoned questions are neither shown nor deferred

    def op() -> Op:
        asked = stage.round(tool, stage.pick("await", "try", "told"), most=2)
        match stage.pick("one", "until", "give up"):
            case "until":
                return Until(Round((YES,), "await"))
            case "give up" if not patient:
                return GiveUp(Round((stage.unique(tool),), stage.pick("await", "try", "told")))
            case _:
                return asked

    ops = stage.several(op, 1, 3)
    if not patient and stage.pick(False, False, True):
        return [[stage.call(tool, *ops, end="leaves", left=Round((stage.unique(tool),), "await"))]]
    return [[stage.call(tool, *ops)]]


def at_once(stage: Stage) -> list[list[Called]]:
    """A coroutine asks several forms at once. Nobody ends the call, because the state of the
    other forms depends on the schedule.
    """
    if stage.few:  # the schedule also decides who is shown the last question
        return coroutines(stage)
    tool = stage.tool()
    answered = stage.attached or tool.detached["tool"] == "defer"
    reviewed = stage.attached or tool.detached["deliver"] != "deny"  # a denied review ends the call

    def round_() -> Round:
        if not answered:
            return Round((stage.unique(tool),), "try")
        ids = stage.draw(
            st.lists(st.sampled_from(stage.kinds(tool)), min_size=1, max_size=3, unique=True)
        )
        asks: list[Ask] = []
        for id in ids:
            asks.append(stage.only(stage.ask(id, asks)))
        return Round(
            tuple(asks), "await", review=reviewed and len(asks) > 1 and stage.pick(False, True)
        )

    manners = {f"manner {id}": stage.pick(0, 0, 10) for id in (*KINDS, "review")}
    people = {f"person {id}": stage.pick(0, 4, 7, 9) for id in KINDS}
    forced = {**people, **(manners if answered else {}), "review": 0}
    ops = stage.several(lambda: Together(tuple(stage.several(round_, 2, 3))), 1, 2)
    return [[stage.call(tool, *ops, forced=forced, may_end=False)]]


def refused(stage: Stage) -> list[list[Called]]:
    """A coroutine uses only `try_ask` and continues after refusals."""
    tool = stage.tool(rules={"sure": Rule("assistant"), "pick": Rule(configured="misfits")})
    return [[stage.call(tool, *(stage.round(tool, stage.pick("try", "told")) for _ in range(3)))]]


def replies(stage: Stage) -> list[list[Called]]:
    """A person replies to a tool instead of answering, and the tool continues."""
    tool = stage.tool(rules={"yes": Rule("assistant_with_escalation")})
    rounds = [
        stage.round(tool, stage.pick("try", "try", "told"), most=1),
        stage.round(tool, stage.pick("try", "try", "told"), most=2),
    ]
    tries = [
        stage.pick(*rounds),
        Round((stage.ask("sure"), stage.ask("note")), "try", review=stage.pick(True, False)),
    ]
    forced = {f"{who} {id}": stage.pick(REPLY, 0, 0) for who in ("person", "link") for id in KINDS}
    forced = {
        **forced,
        "person yes": stage.pick(REPLY, REPLY, 0),
        "review": stage.pick(REPLY_AT_REVIEW, REPLY_AT_REVIEW, 0),
    }
    return [
        [
            stage.call(
                tool,
                Round((YES,), "try"),
                *tries,
                forced={**forced, "model yes": stage.pick(NO, FAILURE)},
            )
        ]
    ]


def memories(stage: Stage) -> list[list[Called]]:
    """Several calls of one tool ask the remembered question, some of them more than once."""
    tool = stage.tool()

    def call() -> Called:
        return stage.call(
            tool,
            *stage.several(lambda: stage.pick(MEMORY, MEMORY, stage.round(tool, "return")), 1, 2),
        )

    return stage.pick([[call(), call()]], [[call()], [call()]])


def approvals(stage: Stage) -> list[list[Called]]:
    """A person is asked before a tool runs, and before its result is delivered."""
    tool = stage.tool(
        run="ask",
        result=stage.pick("ask", "ask", "unattended"),
        permits=stage.pick("", "", "y", "n"),
    )
    calls = [
        stage.call(tool, *stage.several(lambda: stage.round(tool, "return", most=2), 0, 1))
        for _ in range(2)
    ]
    return stage.pick([calls[:1]], [calls], [[calls[0]], [calls[1]]])


def previewed(stage: Stage) -> list[list[Called]]:
    """A tool previews a question, so that the permission of the call also answers it; or it
    previews another one.
    """
    rules = {
        "yes": Rule(stage.pick("user", "user", "user", "assistant"), stage.pick("", "", "", "fits"))
    }
    tool = stage.tool(
        run="ask", previews=stage.pick("first", "first", "first", "another"), rules=rules
    )
    asked = Round((stage.ask("yes"),), stage.pick("return", "await", "try"))
    more = stage.pick(
        (), (asked,), (stage.round(tool, "return"),), (Until(Round((YES,), "await")),)
    )
    mild = stage.pick({"run": 0}, {"run": 0}, {})
    return stage.pick(
        [[stage.call(tool, asked, *more, forced=mild)]],
        [[stage.call(tool, asked, forced=mild), stage.call(tool, asked, forced=mild)]],
    )


def draw_group(stage: Stage, own: What) -> PeopleGroup:
    """Draw a group of people and their actions: mostly yes or `own`."""

    def action() -> GroupAction:
        what = stage.pick(
            "yes",
            "yes",
            "yes",
            own,
            own,
            "no",
            "withdraw",
            "pass",
            "remind",
            "escalate",
            "late",
            "end",
        )
        if what == "end":  # by somebody who may not answer
            return GroupAction(what, "dora", stage.pick("web", "inbox", "api"))
        return GroupAction(
            what,
            stage.pick("ana", "bo", "b.smith", "carl", "lead", "dora", ""),
            stage.pick("web", "inbox", "terminal", "api"),
        )

    return PeopleGroup(
        stage.pick(True, False), stage.pick(2, 1, 3), tuple(stage.several(action, 0, 6))
    )


def group_decisions(stage: Stage) -> list[list[Called]]:
    """Questions and permissions for several people with deadlines: votes, withdrawals, missing
    rights, late answers.
    """
    if stage.few:
        return coroutines(stage)
    of, timed = (
        {
            id: stage.pick(None, draw_group(stage, "reply"), draw_group(stage, "reply"))
            for id in KINDS
        },
        stage.pick(True, False),
    )
    rules = {
        "sure": Rule(stage.pick(*TARGETS)),
        "pick": Rule(configured=stage.pick("", "fits", "misfits")),
    }
    permit = stage.pick(draw_group(stage, "edit"), draw_group(stage, "edit"), None)
    tool = stage.tool(
        run="ask" if permit else stage.pick("unattended", "ask"),
        of=permit,
        timed=stage.pick(True, False),
        rules=rules,
    )
    alone = not stage.attached and tool.detached["tool"] in (
        "auto",
        "defaults",
    )  # otherwise the rest of the form would be for people, too

    def round_(how: How) -> Round:
        asks: list[Ask] = []
        ids = st.lists(
            st.sampled_from(("yes", "sure", "pick", "note")),
            min_size=1,
            max_size=1 if alone else 3,
            unique=True,
        )
        for id in stage.draw(ids):
            ask = stage.ask(id, asks)
            asks.append(
                replace(ask, of=of[id], timed=timed, optional=ask.optional and of[id] is None)
            )
        return Round(
            tuple(asks), how, review=not timed and len(asks) > 1 and stage.pick(False, True)
        )

    def call() -> Called:
        hows: tuple[How, ...] = ("return", "await", "try", "told")
        until = Until(
            Round((replace(YES, of=of["yes"], timed=timed),), stage.pick("return", "await"))
        )
        ops = stage.several(
            lambda: stage.pick(round_(stage.pick(*hows)), round_(stage.pick(*hows)), until), 1, 3
        )
        return stage.call(
            tool,
            *ops,
            forced={f"manner {about}": 0 for about in (*KINDS, "run", "deliver", "review")},
        )

    return stage.pick([[call()]], [[call(), call()]], [[call()], [call()]])


def looked_at(stage: Stage) -> list[list[Called]]:
    """A person decides whether the result is delivered."""
    tool = stage.tool(result="ask")
    return [[stage.call(tool, *stage.several(lambda: stage.round(tool, "return", most=1), 0, 1))]]


def secrets(stage: Stage) -> list[list[Called]]:
    """A secret has to be given again after every crash."""
    tool = stage.tool(rules={"key": Rule(configured=stage.pick("", "", "fits"))})
    asks = [stage.ask(id) for id in ("yes", "key", "note") if id in stage.kinds(tool)]
    asked = Round(tuple(asks), stage.pick("return", "await"), review=stage.pick(False, True))
    alone = (
        Round((stage.ask("key"),), "return")
        if "key" in stage.kinds(tool)
        else stage.round(tool, "return")
    )
    return [[stage.call(tool, *stage.pick((asked,), (asked, alone), (alone, asked)))]]


def escalations(stage: Stage) -> list[list[Called]]:
    """A reviewing model says no, or fails, under each policy."""
    rules = {"yes": Rule("assistant_with_escalation"), "sure": Rule("assistant_with_escalation")}
    policies = POLICIES if not stage.attached and stage.later == "settle" else ("defer",)

    def call(policy: Policy) -> Called:
        tool = stage.tool(rules=rules, detached={"run": policy, "deliver": policy, "tool": policy})
        default = stage.pick(True, False)
        first, second = (
            Ask("yes", has_default=default),
            Ask("sure", has_default=default, context="+ a line"),
        )
        how = stage.pick("await", "return")
        ops = (Round((first,), how), Round((second,), stage.pick("try", how)))
        return stage.call(
            tool, *ops, forced={"model yes": NO, "model sure": FAILURE}, may_end=False
        )

    return [[call(policy) for policy in policies]]


def breakers(stage: Stage) -> list[list[Called]]:
    """A model says no repeatedly, until only a person may answer."""
    tool = stage.tool(rules={"yes": Rule("assistant"), "sure": Rule("assistant")})
    rejected = [
        [stage.call(tool, Round((YES,)), forced={"model yes": NO}, may_end=False)] for _ in range(2)
    ]
    ops = [
        Round((Ask("sure", exclusive=stage.pick(False, True)),), stage.pick("return", "try")),
        Round((YES,)),
    ]
    return [*rejected, [stage.call(tool, *ops, forced={"model yes": NO})]]


def repeats(stage: Stage) -> list[list[Called]]:
    """A tool repeats its question until the answer is yes."""
    tool = stage.tool(rules={"yes": Rule(stage.pick(*TARGETS), stage.pick("", "", "", "fits"))})
    how = stage.pick("return", "await")
    stubborn = stage.pick({}, {"person yes": SECOND, "model yes": NO, "link yes": SECOND})
    before = stage.several(lambda: Round((YES,), how), 0, 1)
    return [[stage.call(tool, *before, Until(Round((YES,), how)), forced=stubborn)]]


def oddities(stage: Stage) -> list[list[Called]]:
    """Unusual calls: unknown tools, broken arguments, tools that are switched off, Ctrl-C."""
    tool = stage.tool(run=stage.pick("unattended", "skip"), result=stage.pick("unattended", "skip"))
    match stage.pick("ghost", "broken", "plain", "stuck"):
        case "ghost":
            return [[stage.call(None)]]
        case "broken":
            return [[stage.call(tool, broken=True)]]
        case "stuck":
            return [
                [
                    stage.call(
                        tool,
                        *stage.several(lambda: stage.round(tool, "return"), 0, 1),
                        end="interrupted",
                    )
                ]
            ]
        case _:
            return [[stage.call(tool)]]


SCENES: tuple[Scene, ...] = (
    chains, forms, coroutines, at_once, refused, replies, memories, approvals, previewed, group_decisions, looked_at, secrets, escalations,
    breakers, repeats, oddities,
)  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn, scenes: Sequence[Scene] = SCENES) -> Script:
    """Return a turn of one to three scenes, in sequence or in parallel."""
    stage = Stage(draw)
    played = [
        scene(stage) for scene in draw(st.lists(st.sampled_from(scenes), min_size=1, max_size=3))
    ]
    few = stage.few
    if few or stage.pick(False, True):
        cycles = [tuple(cycle) for cycle in chain.from_iterable(played)]
    else:
        cycles = [
            tuple(chain.from_iterable(filter(None, beside))) for beside in zip_longest(*played)
        ]
    if few:  # the last question shown to a person must not depend on the order of calls
        cycles = [(called,) for cycle in cycles for called in cycle]
    return Script(
        cycles=tuple(cycles),
        ending=stage.pick("says", "says", "says", "says", "fails", "interrupted"),
        model_is_down=stage.pick(False, False, False, False, True),
        attached=stage.attached,
        later=stage.later,
        limits=Limits(
            repeats=stage.pick(3, 2, 1),
            shown=(
                stage.pick(1, 2, 3) if few else 99
            ),  # with more calls, the last question would depend on the schedule
            rejected_cycles=stage.pick(1, 2, 3),
            cycles=stage.pick(50, 50, 50, 50, 2),
        ),
        schedule=tuple(draw(st.lists(st.integers(0, 7), max_size=5))),
        at_once=stage.pick(True, False),
    )
