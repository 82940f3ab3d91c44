"""People and deadlines of a question: assignment, approvals, reminders, escalation and time limits.

Names of groups and people are resolved when a question is asked. The members of each group and the
logins of each person are recorded with the question. Answering therefore does not need the
configuration, and a configuration change does not affect open questions.
"""

# No `from __future__ import annotations`: msgspec reads the annotations at run time.

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
from midturn.question.text import (
    PERSON,
    canonical_name,
    did_you_mean,
    is_same_name,
    name_key,
    rfc3339,
    seconds_of,
)

# Deadlines: values from programs, their JSON form, and the earliest of several deadlines
# -------------------------------------------------


Deadline: TypeAlias = timedelta | datetime | float | str
"""The time allowed for an answer (a `timedelta`, seconds, or a duration such as `2h`), or the
time of the deadline.
"""
SHORTEST: Final = 1
LONGEST: Final = 31_536_000
"""`SHORTEST` and `LONGEST` are the minimum and maximum time for an answer, in seconds."""


DEADLINE_FORMS: Final = (
    f'Give seconds from {SHORTEST} to {LONGEST:,} (`90`), a duration (`"2h"`), a `timedelta`, or a'
    " time: a `datetime` with a time zone."
)


def deadline_as_json(deadline: object) -> dict[str, object]:
    """Return a deadline as a field in a question's JSON.

    Raises:
        QuestionError: The deadline is invalid, too short or too long, or a time without a time
            zone.
    """
    if isinstance(deadline, datetime) or (
        isinstance(deadline, str) and seconds_of(deadline) is None
    ):
        moment = moment_of(deadline)
        if moment is None:
            raise QuestionError(
                [
                    Problem(
                        "/deadline", f"{brief(deadline)} is not a valid deadline. {DEADLINE_FORMS}"
                    )
                ]
            )
        return {"deadline": moment}
    return {"deadline_seconds": deadline_seconds(deadline)}


def brief(value: object) -> str:
    """Return the `repr` of a value, truncated to 80 characters."""
    try:
        return f"{value!r:.80}"
    except ValueError:  # an integer with thousands of digits
        return f"the `{type(value).__name__}`"


def deadline_seconds(deadline: object) -> float:
    """Convert a `timedelta`, a number, or a duration such as `2h` to seconds.

    Raises:
        QuestionError: The value is invalid, too short or too long.
    """
    seconds: object = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
    if isinstance(seconds, str):
        seconds = seconds_of(seconds)
    if not is_number(seconds) or not SHORTEST <= seconds <= LONGEST:
        raise QuestionError(
            [Problem("/deadline", f"{brief(deadline)} is not a valid deadline. {DEADLINE_FORMS}")]
        )
    return int(seconds) if isinstance(seconds, float) and seconds.is_integer() else seconds


def moment_of(value: object) -> str | None:
    """Return a time in the recorded format. None if it is invalid, has no time zone, or cannot
    be represented in UTC.
    """
    try:
        moment = (
            datetime.fromisoformat(value)
            if isinstance(value, str)
            else value
            if isinstance(value, datetime)
            else None
        )
        return rfc3339(moment) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def after(now: str, seconds: float) -> str:
    """Return the time `seconds` after `now`."""
    return rfc3339(datetime.fromisoformat(now) + timedelta(seconds=seconds))


def earliest(now: str, moments: Iterable[str | float | None]) -> str:
    """Return the earliest of several times, given as timestamps or as seconds from `now`. Empty if
    there is none.

    Relative times are ignored if `now` is empty.
    """
    given = [moment for moment in moments if moment is not None]
    known = [
        moment if isinstance(moment, str) else after(now, moment)
        for moment in given
        if now or isinstance(moment, str)
    ]
    return min(known, default="")


_UNITS: Final = (
    (86_400, "d", "day"),
    (3_600, "h", "hour"),
    (60, "min", "minute"),
    (1, "s", "second"),
)


def time_left(now: str, asked_at: str, deadline: str) -> str:
    """Return the time left for an answer as text for people. In the last quarter of the time, units
    are written out. Empty if a time cannot be parsed.
    """
    try:
        left, whole = (
            (datetime.fromisoformat(deadline) - datetime.fromisoformat(begin)).total_seconds()
            for begin in (now, asked_at or now)
        )
    except (ValueError, TypeError, OverflowError):
        return ""
    if left <= 0:
        return "the deadline has passed"
    if left > whole / 4:
        return f"{amount(left)} left"
    return f"only {amount(left, in_words=True)} left"


def amount(seconds: float, *, in_words: bool = False) -> str:
    """Format a duration with its largest unit and, if not zero, the next smaller unit."""
    whole = max(1, int(seconds))
    place = next(place for place, (size, _, _) in enumerate(_UNITS) if whole >= size)
    parts: list[str] = []
    for size, short, name in _UNITS[place : place + 2]:
        count, whole = divmod(whole, size)
        if count:
            parts.append(
                f"{count} {name}{'' if count == 1 else 's'}" if in_words else f"{count} {short}"
            )
    return " ".join(parts)


# People
# --------------------------------------------------------------------------------------------------


MOST_APPROVALS: Final = 20
MOST_REMINDERS: Final = 5
Wait: TypeAlias = "timedelta | float | str"
"""Seconds, a `timedelta`, or a duration such as `30m`."""


class Escalation(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Additional people who are asked after a question has been open for some time.

    Args:
        after: Time since the question was asked: seconds or a `timedelta`.
        to: Names of people and groups.
    """

    after: Any
    to: tuple[str, ...]

    if TYPE_CHECKING:

        def __init__(self, after: Wait, to: Sequence[str]) -> None: ...


class People(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The people assigned to a question. If `ask`, `only` or `approvals` is set, no model, default
    or configuration answers it.

    Args:
        ask: Names of people and groups that are notified. The inbox shows the question as
            assigned to them.
        only: Whether only the people in `ask`, and later those in `escalate`, may answer.
        approvals: Number of different people who must approve. The first refusal decides. Only
            for yes/no questions and approvals.
        remind_after: Seconds, or a `timedelta`, between reminders. At most 5 are sent.
        escalate: Additional people to ask after some time.
        members: Members of each group by its name, filled in from the configuration. A name without
            members is a person.
        logins: Logins of each person by name. A person's own name always counts as a login.

    Raises:
        QuestionError: A value is invalid. `problems` lists every problem.
    """

    ask: tuple[str, ...] = ()
    only: bool = False
    approvals: int = 1
    remind_after: Any = None
    escalate: tuple[Escalation, ...] = ()
    members: dict[str, tuple[str, ...]] = {}
    logins: dict[str, tuple[str, ...]] = {}

    if TYPE_CHECKING:

        def __init__(
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
        """Normalize lists to tuples and durations to seconds, and validate the result."""
        force_setattr(self, "ask", _names(self.ask))
        force_setattr(self, "remind_after", _seconds(self.remind_after))
        force_setattr(
            self, "escalate", tuple(_escalation(each) for each in _several(self.escalate))
        )
        force_setattr(self, "members", {name: _names(of) for name, of in self.members.items()})
        force_setattr(self, "logins", {name: _names(of) for name, of in self.logins.items()})
        if broken := list(_problems(self)):
            raise QuestionError(broken)

    @property
    def named(self) -> tuple[str, ...]:
        """All names of people and groups, starting with `ask`."""
        return (*self.ask, *(name for each in self.escalate for name in each.to))

    def people_of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the people that names refer to, without duplicates, in the spelling used in this
        object.

        Args:
            names: Names of people and groups. A group is replaced by its members.
        """
        members = {name_key(group): people for group, people in self.members.items()}
        found: dict[str, str] = {}
        for name in names:
            for member in members.get(name_key(name), (name,)):
                person = self.person(member)
                found.setdefault(name_key(person), person)
        return frozenset(found.values())

    def person(self, login: str) -> str:
        """Return the name of the person with this login or name. An unknown login is returned
        unchanged.

        Args:
            login: The login or name.
        """
        if login in self.logins:
            return login
        key = name_key(login)
        by_name = next((name for name in self.logins if name_key(name) == key), None)
        by_login = (
            name
            for name, logins in self.logins.items()
            if any(name_key(known) == key for known in logins)
        )
        return by_name or next(by_login, login)

    def identifies(self, person: str) -> bool:
        """Return whether `ask`, `escalate`, `members` or `logins` contains a person's name.

        Args:
            person: The person's name, as returned by `person`.
        """
        groups = {name_key(group) for group in self.members}
        named = (name for name in self.named if name_key(name) not in groups)
        known = (
            *named,
            *self.logins,
            *(name for members in self.members.values() for name in members),
        )
        return is_among(self.person(person), map(self.person, known))


def is_among(name: str, names: Iterable[str]) -> bool:
    """Return whether a name is one of `names`, compared in canonical form."""
    key = name_key(name)
    return any(name_key(each) == key for each in names)


class Person(Struct, frozen=True, forbid_unknown_fields=True):
    """A configured person. `logins` contains accounts on this system and on the web page, and
    `notify` contains addresses of notification services.
    """

    logins: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()


class Directory(Struct, frozen=True):
    """The configured people and groups. `groups` maps group names to people; nested groups are
    already resolved.
    """

    people: Mapping[str, Person] = {}
    groups: Mapping[str, tuple[str, ...]] = {}

    def knows(self, name: str) -> bool:
        """Return whether a person or group has this name."""
        return is_among(name, self.people) or is_among(name, self.groups)

    def did_you_mean(self, name: str) -> str:
        """Return ` Did you mean `ana`?` with the most similar name, or an empty string."""
        return did_you_mean(name, (*self.people, *self.groups))

    def has_person(self, name: str) -> bool:
        """Return whether a person has this name."""
        return name in self.people or is_among(name, self.people)

    def filled_in(self, people: People) -> People:
        """Return a copy of `people`, with the members of groups and the logins filled in from this
        configuration.

        Values given by a tool are discarded, because a tool could otherwise answer in someone
        else's name. If anyone may vote, the logins of all people are included, so that two logins
        of one person count as one voter. If a group has too few people for the required
        approvals, the turn reports this problem and does not ask the question.
        """
        filled = copy(people)  # not validated, because the turn reports groups that are too small
        groups = {name_key(group): (group, members) for group, members in self.groups.items()}
        force_setattr(
            filled,
            "members",
            dict(groups[key] for name in people.named if (key := name_key(name)) in groups),
        )
        force_setattr(filled, "logins", {})
        if people.approvals > 1 and not people.only:
            force_setattr(
                filled, "logins", {name: person.logins for name, person in self.people.items()}
            )
            return filled
        behind = {name_key(name) for name in filled.people_of(filled.named)}
        known = {
            name: person.logins
            for name, person in sorted(self.people.items())
            if name_key(name) in behind
        }
        force_setattr(filled, "logins", {name: logins for name, logins in known.items() if logins})
        return filled

    def person(self, login: str) -> str:
        """Return the name of the person with this login. An unknown login is returned unchanged."""
        if login in self.people:
            return login
        key = name_key(login)
        by_name = next((name for name in self.people if name_key(name) == key), None)
        by_login = (
            name
            for name, person in self.people.items()
            if any(name_key(known) == key for known in person.logins)
        )
        return by_name or next(by_login, login)

    def addresses(self, people: People, names: Iterable[str]) -> list[str]:
        """Return the notification addresses of the people that names refer to."""
        behind = {name_key(name) for name in people.people_of(names)}
        reached = (
            person for name, person in sorted(self.people.items()) if name_key(name) in behind
        )
        return list(dict.fromkeys(address for person in reached for address in person.notify))


def read_people(given: object) -> People:
    """Read people from JSON or from a configuration table.

    Raises:
        QuestionError: A value is invalid.
    """
    try:
        people = given if isinstance(given, People) else msgspec.convert(given, People)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, QuestionError):
            raise error.__cause__ from None
        raise QuestionError([Problem("", str(error))]) from None
    if people.members or people.logins or people.named:
        # Not in `__post_init__`, because questions recorded by earlier versions must stay readable.
        problems = [*_group_problems(people), *_login_problems(people)]
        if problems:
            raise QuestionError(problems)
    return people


def _group_problems(people: People) -> Iterator[Problem]:
    """Yield names that have no canonical form, and different groups with the same canonical
    name.
    """
    for name in people.named:
        yield from _unreadable("/ask", name)
    groups: dict[str, str] = {}
    for group, members in people.members.items():
        yield from _unreadable("/members", group)
        for place, member in enumerate(members):
            yield from _unreadable(f"{pointer_to('/members', group)}/{place}", member)
        if (other := groups.setdefault(name_key(group), group)) != group:
            yield Problem(
                pointer_to("/members", group),
                f"`{group}` and `{other}` are the same name. Rename one of the groups.",
            )


def _login_problems(people: People) -> Iterator[Problem]:
    """Yield names and logins that have no canonical form, and logins that belong to two people."""
    owners: dict[str, str] = {}
    for person in people.logins:
        yield from _unreadable("/logins", person)
        if (other := owners.setdefault(name_key(person), person)) != person:
            yield Problem(
                pointer_to("/logins", person),
                f"`{person}` and `{other}` are the same name. Merge the two entries.",
            )
    for person, logins in people.logins.items():
        for place, login in enumerate(logins):
            pointer = f"{pointer_to('/logins', person)}/{place}"
            yield from _unreadable(pointer, login)
            if not is_same_name(other := owners.setdefault(name_key(login), person), person):
                yield Problem(
                    pointer,
                    f"`{login}` is a login of both `{other}` and `{person}`. A login must belong to"
                    " only one person.",
                )


def _unreadable(pointer: str, name: object) -> Iterator[Problem]:
    """Yield a problem if a name has no canonical form."""
    if not isinstance(name, str):
        yield Problem(pointer, f"{shown(cast('Any', name))} is not a name. Give a string.")
        return
    try:
        canonical_name(name)
    except ValueError as error:
        yield Problem(pointer, str(error))


def table_problems(error: QuestionError) -> str:
    """Return the problems with keys in configuration style, for an error about a table."""
    return "; ".join(
        f"`{problem.pointer[1:].replace('/', '.')}`: {problem.message}"
        for problem in error.problems
    )


def checked_names(given: Sequence[str]) -> tuple[str, ...]:
    """Validate the names of the people and groups to whom a question is reassigned, and return
    them.

    Raises:
        QuestionError: The list is empty, or a name is invalid.
    """
    names = _names(given)
    broken = [
        problem
        for place, name in enumerate(names)
        for problem in _name_problem(f"/to/{place}", name)
    ]
    broken = broken or [
        problem for place, name in enumerate(names) for problem in _unreadable(f"/to/{place}", name)
    ]
    if broken or not names:
        raise QuestionError(broken or [Problem("/to", "no one is named. Name people or groups.")])
    return names


def _escalation(given: object) -> Escalation:
    each = given if isinstance(given, Escalation) else msgspec.convert(given, Escalation)
    return Escalation(cast("Wait", _seconds(each.after)), _names(each.to))


def _several(given: object) -> Sequence[object]:
    return cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()


def _names(given: object) -> tuple[str, ...]:
    """Return names as a tuple. A single string is one name."""
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
        yield Problem(
            "/approvals",
            f"{shown(people.approvals)} is not a valid number of approvals. Give a whole number"
            f" from 1 to {MOST_APPROVALS}.",
        )
    if people.remind_after is not None:
        yield from _time_problem("/remind_after", people.remind_after)
    for place, each in enumerate(people.escalate):
        yield from _time_problem(f"/escalate/{place}/after", each.after)
        if not each.to:
            yield Problem(f"/escalate/{place}/to", "no one is named. Name people or groups.")
        for inner, name in enumerate(each.to):
            yield from _name_problem(f"/escalate/{place}/to/{inner}", name)
    yield from _too_few(people)


def _too_few(people: People) -> Iterator[Problem]:
    """Yield problems if nobody, or not enough people, could ever answer the question."""
    if people.only and not people.ask:
        yield Problem(
            "/only",
            "`only` is set, but `ask` is empty, so no one may answer. Name people or groups in"
            " `ask`.",
        )
    could = len(people.people_of(people.named))
    if (
        people.only
        and people.ask
        and _is_whole(people.approvals)
        and could < people.approvals
        and _is_filled_in(people)
    ):
        yield Problem(
            "/approvals", f"{people.approvals} people must say yes, but only {could} may answer."
        )


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _is_filled_in(people: People) -> bool:
    return bool(people.members or people.logins)


def _name_problem(pointer: str, name: object) -> Iterator[Problem]:
    if not isinstance(name, str) or not re.fullmatch(PERSON, name):
        yield Problem(
            pointer,
            f"{shown(cast('Any', name))} is not a valid name of a person or group; it must match"
            f" {PERSON}.",
        )


def _time_problem(pointer: str, given: object) -> Iterator[Problem]:
    if not is_number(given) or not SHORTEST <= given <= LONGEST:
        advice = f'Give seconds, from {SHORTEST} to {LONGEST:,}, or a duration such as "30m".'
        yield Problem(pointer, f"{shown(cast('Any', given))} is not a valid time to wait. {advice}")
