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
from midturn.question.json_value import is_number, pointer_to, shown
from midturn.question.text import PERSON, canonical_name, did_you_mean, is_same_name, name_key, rfc3339, seconds_of

# Deadlines: as a program gives them, as they are written, and the one that holds for a form ----------------------------


Deadline: TypeAlias = timedelta | datetime | float | str
"""The time that an answer may take (a `timedelta`, seconds, or a duration such as `2h`), or the moment until which it may."""
SHORTEST: Final = 1
LONGEST: Final = 31_536_000
"""Seconds that an answer may take."""


DEADLINE_FORMS: Final = (
    f'Give seconds from {SHORTEST} to {LONGEST:,} (`90`), a duration (`"2h"`), a `timedelta`, or a moment: a `datetime` with a zone.'
)


def deadline_as_json(deadline: object) -> dict[str, object]:
    """Return the key of a question that says the same.

    Raises:
        QuestionError: It is no deadline, too short or too long, or a moment without a zone.
    """
    if isinstance(deadline, datetime) or (isinstance(deadline, str) and seconds_of(deadline) is None):
        moment = moment_of(deadline)
        if moment is None:
            raise QuestionError([Problem("/deadline", f"{brief(deadline)} is no deadline. {DEADLINE_FORMS}")])
        return {"deadline": moment}
    return {"deadline_seconds": deadline_seconds(deadline)}


def brief(value: object) -> str:
    """Return the `repr` of anything, at most 80 characters of it."""
    try:
        return f"{value!r:.80}"
    except ValueError:  # a whole number of thousands of digits
        return f"the `{type(value).__name__}`"


def deadline_seconds(deadline: object) -> float:
    """Return the seconds of a `timedelta`, of a number, or of a duration such as `2h`.

    Raises:
        QuestionError: It is something else, too short or too long.
    """
    seconds: object = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
    if isinstance(seconds, str):
        seconds = seconds_of(seconds)
    if not is_number(seconds) or not SHORTEST <= seconds <= LONGEST:
        raise QuestionError([Problem("/deadline", f"{brief(deadline)} is no deadline. {DEADLINE_FORMS}")])
    return int(seconds) if isinstance(seconds, float) and seconds.is_integer() else seconds


def moment_of(value: object) -> str | None:
    """Return a moment as every deadline is recorded; None where it is none, has no zone, or is outside of the years that UTC has."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value if isinstance(value, datetime) else None
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
        """Return the people behind names, each once, as they are spelled here.

        Args:
            names: Of people and groups; a group stands for its members.
        """
        members = {name_key(group): people for group, people in self.members.items()}
        found: dict[str, str] = {}
        for name in names:
            for member in members.get(name_key(name), (name,)):
                person = self.person(member)
                found.setdefault(name_key(person), person)
        return frozenset(found.values())

    def person(self, login: str) -> str:
        """Return the name of the person behind a sign-in or a name; one that is not known stands for itself.

        Args:
            login: The sign-in, or the name.
        """
        if login in self.logins:
            return login
        key = name_key(login)
        by_name = next((name for name in self.logins if name_key(name) == key), None)
        by_login = (name for name, logins in self.logins.items() if any(name_key(known) == key for known in logins))
        return by_name or next(by_login, login)

    def identifies(self, person: str) -> bool:
        """Return whether a person is among those that `ask`, `escalate`, `members` or `logins` name.

        Args:
            person: The person's name, as `person` returns it.
        """
        groups = {name_key(group) for group in self.members}
        named = (name for name in self.named if name_key(name) not in groups)
        known = (*named, *self.logins, *(name for members in self.members.values() for name in members))
        return is_among(self.person(person), map(self.person, known))


def is_among(name: str, names: Iterable[str]) -> bool:
    """Return whether a name is one of several, by canonical form."""
    key = name_key(name)
    return any(name_key(each) == key for each in names)


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
        return is_among(name, self.people) or is_among(name, self.groups)

    def did_you_mean(self, name: str) -> str:
        """Return ` Did you mean `ana`?` where a name is near; else nothing."""
        return did_you_mean(name, (*self.people, *self.groups))

    def has_person(self, name: str) -> bool:
        """Whether a person is called so."""
        return name in self.people or is_among(name, self.people)

    def filled_in(self, people: People) -> People:
        """Return what is recorded: with the members of its groups, and the logins of its people, as far as they are known here.

        It alone says who they are: a tool that says otherwise could answer in another's name. Where anyone may vote, everyone's logins are
        recorded, so that two logins of one person are one voter. Where a group has too few people for the approvals that are wanted, the
        machine says so, and asks no one.
        """
        filled = copy(people)  # unchecked, see above
        groups = {name_key(group): (group, members) for group, members in self.groups.items()}
        force_setattr(filled, "members", dict(groups[key] for name in people.named if (key := name_key(name)) in groups))
        force_setattr(filled, "logins", {})
        if people.approvals > 1 and not people.only:
            force_setattr(filled, "logins", {name: person.logins for name, person in self.people.items()})
            return filled
        behind = {name_key(name) for name in filled.people_of(filled.named)}
        known = {name: person.logins for name, person in sorted(self.people.items()) if name_key(name) in behind}
        force_setattr(filled, "logins", {name: logins for name, logins in known.items() if logins})
        return filled

    def person(self, login: str) -> str:
        """Return the name of the person behind a login; one that is not known stands for itself."""
        if login in self.people:
            return login
        key = name_key(login)
        by_name = next((name for name in self.people if name_key(name) == key), None)
        by_login = (name for name, person in self.people.items() if any(name_key(known) == key for known in person.logins))
        return by_name or next(by_login, login)

    def addresses(self, people: People, names: Iterable[str]) -> list[str]:
        """Return where the people behind names are told of questions."""
        behind = {name_key(name) for name in people.people_of(names)}
        reached = (person for name, person in sorted(self.people.items()) if name_key(name) in behind)
        return list(dict.fromkeys(address for person in reached for address in person.notify))


def read_people(given: object) -> People:
    """Return what JSON, or a table of a configuration, says of people.

    Raises:
        QuestionError: Something of it cannot be.
    """
    try:
        people = given if isinstance(given, People) else msgspec.convert(given, People)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, QuestionError):
            raise error.__cause__ from None
        raise QuestionError([Problem("", str(error))]) from None
    if people.members or people.logins or people.named:
        # Not in `__post_init__`: questions on record are read, whatever an earlier version let pass.
        problems = [*_group_problems(people), *_login_problems(people)]
        if problems:
            raise QuestionError(problems)
    return people


def _group_problems(people: People) -> Iterator[Problem]:
    """Find names that cannot be compared, and groups with one canonical name."""
    for name in people.named:
        yield from _unreadable("/ask", name)
    groups: dict[str, str] = {}
    for group, members in people.members.items():
        yield from _unreadable("/members", group)
        for place, member in enumerate(members):
            yield from _unreadable(f"{pointer_to('/members', group)}/{place}", member)
        if (other := groups.setdefault(name_key(group), group)) != group:
            yield Problem(pointer_to("/members", group), f"`{group}` and `{other}` are one name. Give one of the groups another name.")


def _login_problems(people: People) -> Iterator[Problem]:
    """Find logins that cannot be compared, and logins of two people."""
    owners: dict[str, str] = {}
    for person in people.logins:
        yield from _unreadable("/logins", person)
        if (other := owners.setdefault(name_key(person), person)) != person:
            yield Problem(pointer_to("/logins", person), f"`{person}` and `{other}` are one name. Merge the two entries.")
    for person, logins in people.logins.items():
        for place, login in enumerate(logins):
            pointer = f"{pointer_to('/logins', person)}/{place}"
            yield from _unreadable(pointer, login)
            if not is_same_name(other := owners.setdefault(name_key(login), person), person):
                yield Problem(pointer, f"`{login}` is a login of both `{other}` and `{person}`. A login belongs to one person.")


def _unreadable(pointer: str, name: object) -> Iterator[Problem]:
    """Find a name that cannot be compared."""
    if not isinstance(name, str):
        yield Problem(pointer, f"{shown(cast('Any', name))} is no name.")
        return
    try:
        canonical_name(name)
    except ValueError as error:
        yield Problem(pointer, str(error))


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
    broken = broken or [problem for place, name in enumerate(names) for problem in _unreadable(f"/to/{place}", name)]
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
