"""Several people about one thing, computed by an oracle: what counts of what they do, and what it comes to. Imports nothing of midturn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

from support.turn_script import Crowd, Deal

MEMBERS = ("ana", "bo", "carl")
LEAD = "lead"
LOGINS = {"bo": "b.smith"}
AT_PROMPT = "ana"
"""Who sits at the prompt, where someone does."""
End: TypeAlias = Literal["yes", "no", "edit", "reply", "late"]


class Came(Struct):
    """What people came to. `counts` says of each deal whether it does; `voters` are those whose votes make the answer, by name."""

    deals: list[Deal]
    counts: list[bool]
    end: End
    voters: list[str]


@cache
def came(crowd: Crowd, time: int, *, is_yes_or_no: bool, is_permission: bool = False, is_timed: bool = False) -> Came:
    """Say what comes of what is put to people for the `time`th time: in the end, everyone who may says yes."""
    first, kinds = time % (len(crowd.deals) or 1), _kinds(is_permission=is_permission, is_timed=is_timed)
    needed = crowd.approvals if is_yes_or_no else 1
    said = [deal for deal in crowd.deals[first:] + crowd.deals[:first] if deal.what in kinds]
    said = [deal for deal in said if deal.what != "end" or crowd.only or needed > 1]  # nobody else may not end it
    meeting = _Meeting(crowd, needed)
    deals: list[Deal] = []
    counts: list[bool] = []
    for deal in (*said, *(Deal("yes", name) for name in MEMBERS)):
        deals.append(deal)
        counts.append(meeting.counts(deal))
        if meeting.end:
            return Came(deals, counts, meeting.end, meeting.voters)
    raise AssertionError("everyone has said yes, and nothing comes of it")


def _kinds(*, is_permission: bool, is_timed: bool) -> frozenset[str]:
    """Return what may happen at all: a permission may be edited, a question replied to."""
    always = frozenset({"yes", "no", "withdraw", "pass", "remind", "escalate", "end"})
    return always | {"edit" if is_permission else "reply"} | ({"late"} if is_timed else set[str]())


class _Meeting:
    """What was said so far. `said` has the yeses that stand: who, and on which way."""

    def __init__(self, crowd: Crowd, needed: int) -> None:
        self._crowd = crowd
        self._needed = needed
        self._said: list[tuple[str, str]] = []
        self._editor: str | None = None
        self._told = set[str]()
        self.end: End | None = None
        self.voters: list[str] = []

    def counts(self, deal: Deal) -> bool:
        """Take what happens; say whether it counts."""
        match deal.what:
            case "late":
                self.end = "late"
                return True
            case "remind" | "escalate":
                is_new = deal.what not in self._told
                self._told.add(deal.what)
                return is_new
            case _:
                return self._may(deal.who) and self._does(deal)

    def _may(self, who: str) -> bool:
        if not who:
            return not self._crowd.only and self._needed == 1
        if not self._crowd.only:
            return self._needed == 1 or _name(who) in (*MEMBERS, LEAD)
        return _name(who) in MEMBERS or (_name(who) == LEAD and "escalate" in self._told)

    def _does(self, deal: Deal) -> bool:
        own = next(self._own(deal), None)
        match deal.what:
            case "end":
                raise AssertionError("those who may end it do not, in these scripts")
            case "pass":
                return True
            case "withdraw":
                return own is not None and self._withdrawn(own)
            case "no" | "reply":
                self.end = deal.what
                self.voters = [_name(deal.who)] if deal.what == "no" and self._needed > 1 else []
                return True
            case "edit":
                self._said, self._editor = [], _name(deal.who)
            case _ if own is not None:
                return False
            case _:
                pass
        self._said.append((_name(deal.who), deal.via))
        if len(self._said) >= self._needed:
            self.end = "yes" if self._editor is None else "edit"
            self.voters = [name for name, _ in self._said] if self._needed > 1 else []
        return True

    def _own(self, deal: Deal) -> Iterator[tuple[str, str]]:
        """Yield the yes of the same person: on another device, or as anyone at the command line."""
        for name, via in self._said:
            if name == _name(deal.who) or {via, deal.via} <= {"inbox", "terminal"}:
                yield name, via

    def _withdrawn(self, own: tuple[str, str]) -> bool:
        if own[0] == self._editor:
            self._said, self._editor = [], None
        else:
            self._said.remove(own)
        return True


def _name(who: str) -> str:
    return next((name for name, login in LOGINS.items() if login == who), who)


def next_deals(found: Came, noted: int) -> Sequence[tuple[Deal, bool]]:
    """Return what happens once so many things were noted: what does not count, and then what does."""
    start = 0
    for _ in range(noted):
        start = found.counts.index(True, start) + 1
    return list(zip(found.deals[start:], found.counts[start:], strict=True))[: found.counts[start:].index(True) + 1]
