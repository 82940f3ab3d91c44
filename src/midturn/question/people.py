"""People and deadline of a question: whose it is, who may answer it, how many have to say yes, who is told later, until when it waits.

Names become people when a question is asked: what is recorded beside it says who is in each group, and by which logins each person is
known. So an answerer and the process that records the answer need no configuration, and a change of it changes no question that waits.
"""

# Without `from __future__ import annotations`: msgspec reads what stands here.

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from midturn.errors import Problem, QuestionError
from midturn.values.json_value import is_number, shown
from midturn.values.text import PERSON, rfc3339, seconds_of

# Deadlines: as a program gives them, as they are written, and the one that holds for a form ----------------------------


Deadline: TypeAlias = timedelta | datetime
"""The time that an answer may take, or the moment until which it may."""
SHORTEST: Final = 1
LONGEST: Final = 31_536_000
"""Seconds that an answer may take."""


def deadline_as_json(deadline: Deadline) -> dict[str, object]:
    """Return the key of a question that says the same; a moment without a zone stays as it is, for the check to refuse."""
    if isinstance(deadline, timedelta):
        seconds = deadline.total_seconds()
        return {"deadline_seconds": int(seconds) if seconds.is_integer() else seconds}
    return {"deadline": rfc3339(deadline) if deadline.tzinfo else deadline.isoformat()}


def moment_of(value: object) -> str | None:
    """Return a moment as every deadline is recorded; None where it is none, or has no zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return rfc3339(moment) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def after(now: str, seconds: float) -> str:
    """Return the moment that comes so many seconds after another one."""
    return rfc3339(datetime.fromisoformat(now) + timedelta(seconds=seconds))


def earliest(now: str, moments: Iterable[str | float | None]) -> str:
    """Return the earliest of moments, and of moments in so many seconds from `now`; empty where there is none, or no time is known."""
    given = [moment for moment in moments if moment is not None]
    known = [moment if isinstance(moment, str) else after(now, moment) for moment in given if now or isinstance(moment, str)]
    return min(known, default="")


_UNITS: Final = ((86_400, "d", "day"), (3_600, "h", "hour"), (60, "min", "minute"), (1, "s", "second"))


def time_left(now: str, asked_at: str, deadline: str) -> str:
    """Say how long there is left for an answer, for people; from the last quarter on in words. Empty where a time cannot be read."""
    try:
        left, whole = (
            (datetime.fromisoformat(deadline) - datetime.fromisoformat(begin)).total_seconds() for begin in (now, asked_at or now)
        )
    except (ValueError, TypeError, OverflowError):
        return ""
    if left <= 0:
        return "the time is over"
    if left > whole / 4:
        return f"{amount(left)} left"
    return f"only {amount(left, in_words=True)} left"


def amount(seconds: float, *, in_words: bool = False) -> str:
    """Write a length of time in the largest unit, and the next one where that counts."""
    whole = max(1, int(seconds))
    place = next(place for place, (size, _, _) in enumerate(_UNITS) if whole >= size)
    parts: list[str] = []
    for size, short, name in _UNITS[place : place + 2]:
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}" if in_words else f"{count} {short}")
    return " ".join(parts)


# People ---------------------------------------------------------------------------------------------------------------


MOST_APPROVALS: Final = 20
MOST_REMINDERS: Final = 5
Wait: TypeAlias = "timedelta | float | str"
"""Seconds, a `timedelta`, or a duration such as `30m`."""


class Escalation(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Other people who are asked, too, once a question has waited for `after` (seconds, or a `timedelta`).

    Args:
        after: How long it has waited by then.
        to: Names of people and of groups.
    """

    after: Any
    to: tuple[str, ...]

    if TYPE_CHECKING:

        def __init__(self, after: Wait, to: Sequence[str]) -> None: ...


class People(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The people that a question is for. With people, or approvals, people alone decide it: no model, default or configuration answers.

    Args:
        ask: Names of people and groups that it is put to: they are told, and the inbox says whose it is.
        only: No one else may answer.
        approvals: How many different people have to say yes; the first no is a no. For yes/no questions and approvals.
        remind_after: Seconds, or a `timedelta`, after which they are told again; then every so often, at most 5 times.
        escalate: Who is asked, too, once it has waited for so long.
        members: Who is in each group, by its name. A configuration fills it in; a name without members is a person.
        logins: By which sign-ins each person is known, by name; a person's own name always counts.

    Raises:
        QuestionError: Something of it cannot be; `problems` has all of that.
    """

    ask: tuple[str, ...] = ()
    only: bool = False
    approvals: int = 1
    remind_after: Any = None
    escalate: tuple[Escalation, ...] = ()
    members: dict[str, tuple[str, ...]] = {}
    logins: dict[str, tuple[str, ...]] = {}

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 (the fields, with what each may be given as)
            self,
            *,
            ask: Sequence[str] = (),
            only: bool = False,
            approvals: int = 1,
            remind_after: Wait | None = None,
            escalate: Sequence[Escalation] = (),
            members: Mapping[str, Sequence[str]] = {},
            logins: Mapping[str, Sequence[str]] = {},
        ) -> None: ...

    def __post_init__(self) -> None:
        """Take lists for tuples and durations for seconds, and refuse what cannot be."""
        force_setattr(self, "ask", _names(self.ask))
        force_setattr(self, "remind_after", _seconds(self.remind_after))
        force_setattr(self, "escalate", tuple(_escalation(each) for each in _several(self.escalate)))
        force_setattr(self, "members", {name: _names(of) for name, of in self.members.items()})
        force_setattr(self, "logins", {name: _names(of) for name, of in self.logins.items()})
        if broken := list(_problems(self)):
            raise QuestionError(broken)

    @property
    def named(self) -> tuple[str, ...]:
        """Every name of a person or group in it, those who are asked first."""
        return (*self.ask, *(name for each in self.escalate for name in each.to))

    def people_of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the people behind names.

        Args:
            names: Of people and groups; a group stands for its members.
        """
        return frozenset(person for name in names for person in self.members.get(name, (name,)))

    def person(self, login: str) -> str:
        """Return the name of the person behind a sign-in or a name; one that is not known stands for itself.

        Args:
            login: The sign-in, or the name.
        """
        if login in self.logins:
            return login
        return next((name for name, logins in self.logins.items() if login in logins), login)


class Person(Struct, frozen=True, forbid_unknown_fields=True):
    """A person as configured: `logins` are users of the system and sign-ins of the page, `notify` addresses of services."""

    logins: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()


class Directory(Struct, frozen=True):
    """The people and groups that a configuration names. `groups` have their members as people, groups in groups resolved."""

    people: Mapping[str, Person] = {}
    groups: Mapping[str, tuple[str, ...]] = {}

    def knows(self, name: str) -> bool:
        """Whether a person or group is called so."""
        return name in self.people or name in self.groups

    def filled_in(self, people: People) -> People:
        """Return what is recorded: with the members of its groups, and the logins of its people, as far as they are known here.

        It alone says who they are: a tool that says otherwise could answer in another's name. Where a group has too few people for the
        approvals that are wanted, the machine says so, and asks no one.
        """
        filled = copy(people)  # unchecked, see above
        force_setattr(filled, "members", {name: self.groups[name] for name in dict.fromkeys(people.named) if name in self.groups})
        behind = [name for name in sorted(filled.people_of(filled.named)) if name in self.people]
        force_setattr(filled, "logins", {name: self.people[name].logins for name in behind if self.people[name].logins})
        return filled

    def person(self, login: str) -> str:
        """Return the name of the person behind a login; one that is not known stands for itself."""
        return People(logins={name: person.logins for name, person in self.people.items()}).person(login)

    def addresses(self, people: People, names: Iterable[str]) -> list[str]:
        """Return where the people behind names are told of questions."""
        behind = sorted(people.people_of(names))
        return list(dict.fromkeys(address for name in behind if name in self.people for address in self.people[name].notify))


def read_people(given: object) -> People:
    """Return what JSON, or a table of a configuration, says of people.

    Raises:
        QuestionError: Something of it cannot be.
    """
    if isinstance(given, People):
        return given
    try:
        return msgspec.convert(given, People)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, QuestionError):
            raise error.__cause__ from None
        raise QuestionError([Problem("", str(error))]) from None


def in_a_table(error: QuestionError) -> str:
    """Return what is wrong with people as a configuration says it: with the key of each problem."""
    return "; ".join(f"`{problem.pointer[1:].replace('/', '.')}`: {problem.message}" for problem in error.problems)


def checked_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return names of people and groups that a question is passed on to.

    Raises:
        QuestionError: There are none, or one of them is no name.
    """
    names = _names(given)
    broken = [problem for place, name in enumerate(names) for problem in _name_problem(f"/to/{place}", name)]
    if broken or not names:
        raise QuestionError(broken or [Problem("/to", "there is no one to pass it on to. Name people or groups.")])
    return names


def _escalation(given: object) -> Escalation:
    each = given if isinstance(given, Escalation) else msgspec.convert(given, Escalation)
    return Escalation(cast("Wait", _seconds(each.after)), _names(each.to))


def _several(given: object) -> Sequence[object]:
    return cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()


def _names(given: object) -> tuple[str, ...]:
    """Return names as a tuple; one alone is a text."""
    return (given,) if isinstance(given, str) else cast("tuple[str, ...]", tuple(_several(given)))


def _seconds(given: object) -> object:
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, str) and (seconds := seconds_of(given)) is not None:
        given = seconds
    return int(given) if isinstance(given, float) and given.is_integer() else given


def _problems(people: People) -> Iterator[Problem]:
    for place, name in enumerate(people.ask):
        yield from _name_problem(f"/ask/{place}", name)
    if not _is_whole(people.approvals) or not 1 <= people.approvals <= MOST_APPROVALS:
        yield Problem("/approvals", f"{shown(people.approvals)} is no number of approvals. Give one from 1 to {MOST_APPROVALS}.")
    if people.remind_after is not None:
        yield from _time_problem("/remind_after", people.remind_after)
    for place, each in enumerate(people.escalate):
        yield from _time_problem(f"/escalate/{place}/after", each.after)
        if not each.to:
            yield Problem(f"/escalate/{place}/to", "there is no one to escalate to. Name people or groups.")
        for inner, name in enumerate(each.to):
            yield from _name_problem(f"/escalate/{place}/to/{inner}", name)
    yield from _too_few(people)


def _too_few(people: People) -> Iterator[Problem]:
    """Find what no one, or not enough people, could ever answer."""
    if people.only and not people.ask:
        yield Problem("/only", "`only` names no one who may answer. Name people or groups in `ask`.")
    could = len(people.people_of(people.named))
    if people.only and people.ask and _is_whole(people.approvals) and could < people.approvals and _is_filled_in(people):
        yield Problem("/approvals", f"{people.approvals} people have to say yes, and only {could} may answer.")


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _is_filled_in(people: People) -> bool:
    return bool(people.members or people.logins)


def _name_problem(pointer: str, name: object) -> Iterator[Problem]:
    if not isinstance(name, str) or not re.fullmatch(PERSON, name):
        yield Problem(pointer, f"{shown(cast('Any', name))} is no name of a person or group; it must match {PERSON}.")


def _time_problem(pointer: str, given: object) -> Iterator[Problem]:
    if not is_number(given) or not SHORTEST <= given <= LONGEST:
        told = f'Give seconds, from {SHORTEST} to {LONGEST:,}, or a duration such as "30m".'
        yield Problem(pointer, f"{shown(cast('Any', given))} is no time to wait. {told}")
