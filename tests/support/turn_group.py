"""Oracle for decisions of several people: which of their actions count, and the outcome. Imports
nothing of midturn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

from support.turn_script import GroupAction, PeopleGroup

MEMBERS = ("ana", "bo", "carl")
LEAD = "lead"
LOGINS = {"bo": "b.smith"}
AT_PROMPT = "ana"
"""The person at the prompt, if the turn is attached."""
End: TypeAlias = Literal["yes", "no", "edit", "reply", "late"]


class GroupOutcome(Struct):
    """The actions and the outcome. `counts` tells for each action whether it counts. `voters` are
    the people whose votes make the answer.
    """

    actions: list[GroupAction]
    counts: list[bool]
    end: End
    voters: list[str]


@cache
def group_outcome(
    group: PeopleGroup,
    time: int,
    *,
    is_yes_or_no: bool,
    is_permission: bool = False,
    is_timed: bool = False,
) -> GroupOutcome:
    """Return the outcome for a question that comes up for the `time`th time.

    After the scripted actions, everyone who may answer says yes.
    """
    first, kinds = (
        time % (len(group.actions) or 1),
        _kinds(is_permission=is_permission, is_timed=is_timed),
    )
    needed = group.approvals if is_yes_or_no else 1
    said = [
        action for action in group.actions[first:] + group.actions[:first] if action.what in kinds
    ]
    said = [
        action for action in said if action.what != "end" or group.only or needed > 1
    ]  # a user without rights cannot end the turn
    meeting = _GroupState(group, needed)
    actions: list[GroupAction] = []
    counts: list[bool] = []
    for action in (*said, *(GroupAction("yes", name) for name in MEMBERS)):
        actions.append(action)
        counts.append(meeting.counts(action))
        if meeting.end:
            return GroupOutcome(actions, counts, meeting.end, meeting.voters)
    raise AssertionError("everyone has said yes, and nothing comes of it")


def _kinds(*, is_permission: bool, is_timed: bool) -> frozenset[str]:
    """Return the possible kinds of actions. Only a permission can be edited, only a question
    replied to.
    """
    always = frozenset({"yes", "no", "withdraw", "pass", "remind", "escalate", "end"})
    return always | {"edit" if is_permission else "reply"} | ({"late"} if is_timed else set[str]())


class _GroupState:
    """The state of a group decision. `_said` has the valid yes votes: person and interface."""

    def __init__(self, group: PeopleGroup, needed: int) -> None:
        self._group = group
        self._needed = needed
        self._said: list[tuple[str, str]] = []
        self._editor: str | None = None
        self._told = set[str]()
        self.end: End | None = None
        self.voters: list[str] = []

    def counts(self, action: GroupAction) -> bool:
        """Apply an action; return whether it counts."""
        match action.what:
            case "late":
                self.end = "late"
                return True
            case "remind" | "escalate":
                is_new = action.what not in self._told
                self._told.add(action.what)
                return is_new
            case _:
                return self._may(action.who) and self._does(action)

    def _may(self, who: str) -> bool:
        if not who:
            return not self._group.only and self._needed == 1
        if not self._group.only:
            return self._needed == 1 or _name(who) in (*MEMBERS, LEAD)
        return _name(who) in MEMBERS or (_name(who) == LEAD and "escalate" in self._told)

    def _does(self, action: GroupAction) -> bool:
        own = next(self._own(action), None)
        match action.what:
            case "end":
                raise AssertionError("those who may end it do not, in these scripts")
            case "pass":
                return True
            case "withdraw":
                return own is not None and self._withdrawn(own)
            case "no" | "reply":
                self.end = action.what
                self.voters = (
                    [_name(action.who)] if action.what == "no" and self._needed > 1 else []
                )
                return True
            case "edit":
                self._said, self._editor = [], _name(action.who)
            case _ if own is not None:
                return False
            case _:
                pass
        self._said.append((_name(action.who), action.via))
        if len(self._said) >= self._needed:
            self.end = "yes" if self._editor is None else "edit"
            self.voters = [name for name, _ in self._said] if self._needed > 1 else []
        return True

    def _own(self, action: GroupAction) -> Iterator[tuple[str, str]]:
        """Yield the earlier yes of the same person. All people at the command line count as one."""
        for name, via in self._said:
            if name == _name(action.who) or {via, action.via} <= {"inbox", "terminal"}:
                yield name, via

    def _withdrawn(self, own: tuple[str, str]) -> bool:
        if own[0] == self._editor:
            self._said, self._editor = [], None
        else:
            self._said.remove(own)
        return True


def _name(who: str) -> str:
    return next((name for name, login in LOGINS.items() if login == who), who)


def next_actions(found: GroupOutcome, noted: int) -> Sequence[tuple[GroupAction, bool]]:
    """Return the next actions after `noted` counted ones: those that do not count, then one that
    does.
    """
    start = 0
    for _ in range(noted):
        start = found.counts.index(True, start) + 1
    return list(zip(found.actions[start:], found.counts[start:], strict=True))[
        : found.counts[start:].index(True) + 1
    ]
