"""Converts typed text to answers, or explains why the text is not a valid answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import cast

from msgspec import UNSET, Struct

from midturn.errors import AnswerError, Problem
from midturn.events.prompt import CallSubject, Prompt, RuleDraft
from midturn.question import answer
from midturn.question.answer import NotChosen, SelectOptions, named_option
from midturn.question.answer_type import MultiSelectType, SchemaType, SelectOption, folded
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, is_number
from midturn.question.reply import Scope
from midturn.question.schema_check import foreign_schema_problems
from midturn.question.text import exact
from midturn.terminal.prompts.answer_text import problem_text, wanted
from midturn.terminal.prompts.keys import Ruled, description, initial, label, one_line, pretty

ERRORS_SHOWN = 3


class NotAccepted(ValueError):  # noqa: N818 (it says what happened to the text)
    """The input is not a valid answer.

    `lines` explain why, and can be displayed. `offset` is the position of the error in the text, if
    known.
    """

    def __init__(self, lines: list[str], offset: int | None = None) -> None:
        self.lines = lines
        self.offset = offset
        super().__init__("\n".join(lines))


def accept(prompt: Prompt, value: Json) -> Json:
    """Check an answer against the question and return it in canonical form.

    Raises:
        NotAccepted: The value is not valid for the question.
    """
    try:
        return _checked(prompt, value)
    except AnswerError as error:
        raise NotAccepted(_lines(error.problems)) from None


def accept_json(prompt: Prompt, text: str) -> Json:
    """Parse `text` as JSON and check it against the question.

    Raises:
        NotAccepted: The text is not JSON, or does not match the schema.
    """
    kind = prompt.question.answer_type
    asked = f"expected: {wanted(kind.schema)}" if isinstance(kind, SchemaType) else ""
    if not text.strip():
        raise NotAccepted(["nothing was typed", asked])
    try:
        return _checked(prompt, read(text))
    except NotAccepted as error:
        raise NotAccepted([*error.lines, asked], error.offset) from None
    except AnswerError as error:
        raise NotAccepted(_lines(error.problems, problem_text)) from None


def accept_number(prompt: Prompt, text: str) -> Json:
    """Parse a number and check it against the question.

    Raises:
        NotAccepted: The text is not a number, or the number is out of range.
    """
    try:
        value = read_json(text.strip())
    except NotJson:
        value = None
    if not is_number(value):
        raise NotAccepted(
            [
                (
                    f"{exact(text.strip())} is not a number"
                    if text.strip()
                    else "nothing was typed: a number is expected"
                )
            ]
        )
    return accept(prompt, value)


def accept_arguments(prompt: Prompt, text: str) -> Json:
    """Parse the edited arguments of a call and check them against the tool's parameters.

    Raises:
        NotAccepted: The text is not a JSON object, or does not match the parameters.
    """
    value = read(text)
    if not isinstance(value, Mapping):
        raise NotAccepted(["arguments are a JSON object: { ... }"])
    if problems := argument_problems(prompt.parameters, value):
        raise NotAccepted(_lines(problems, problem_text))
    return value


MAX_FIELDS = 5
"""Maximum number of arguments that are edited one by one.

If a call has more arguments, or none, they are edited as one JSON value.
"""


class Argument(Struct, frozen=True):
    """One argument of a call while it is edited: a string as plain text, any other value as JSON."""

    name: str
    text: str
    is_json: bool

    def value(self, typed: str) -> Json:
        """Return the typed text as a value.

        Raises:
            NotAccepted: JSON is expected, and the text is not JSON.
        """
        return read(typed) if self.is_json else typed


def arguments_of(prompt: Prompt) -> tuple[Argument, ...]:
    """Return the arguments of a call that are edited one by one, or `()` if they are edited as
    JSON.
    """
    arguments = prompt.subject.call.arguments if isinstance(prompt.subject, CallSubject) else None
    if not isinstance(arguments, Mapping) or len(arguments) > MAX_FIELDS:
        return ()
    return tuple(
        Argument(
            name, value if isinstance(value, str) else pretty(value), not isinstance(value, str)
        )
        for name, value in arguments.items()
    )


def accept_argument(
    prompt: Prompt, arguments: JsonObject, argument: Argument, typed: str
) -> JsonObject:
    """Replace one argument and check the result against the tool's parameters.

    Raises:
        NotAccepted: The change is invalid. Errors that the arguments already had are ignored.
    """
    changed = {**arguments, argument.name: argument.value(typed)}
    before = argument_problems(prompt.parameters, arguments)
    if problems := tuple(
        one for one in argument_problems(prompt.parameters, changed) if one not in before
    ):
        raise NotAccepted(_lines(problems, problem_text))
    return changed


def read(text: str) -> Json:
    """Parse JSON.

    Raises:
        NotAccepted: The text is not JSON.
    """
    try:
        return read_json(text)
    except NotJson as error:
        raise NotAccepted([exact(str(error))], error.offset) from None


def argument_problems(parameters: JsonObject, arguments: JsonObject) -> tuple[Problem, ...]:
    """Return the errors in the arguments.

    If the tool has no parameter schema, nothing is checked, because the tool checks its arguments
    itself.
    """
    if not parameters:
        return ()
    return foreign_schema_problems(parameters, arguments)


def _checked(prompt: Prompt, value: Json) -> Json:
    """Check an answer that is not a secret."""
    return cast("Json", prompt.question.check(value))


def _plain(problem: Problem) -> str:
    return problem.message


def _lines(problems: tuple[Problem, ...], say: Callable[[Problem], str] = _plain) -> list[str]:
    more = [f"and {len(problems) - ERRORS_SHOWN} more"] if len(problems) > ERRORS_SHOWN else []
    return [*(exact(say(problem)) for problem in problems[:ERRORS_SHOWN]), *more]


# --------------------------------------------------------------------------------------------------
# Options selected by typed text


def choose(typed: str, options: SelectOptions) -> int:
    """Return the index of the option that the text selects (see `midturn.question.answer`).

    Raises:
        NotAccepted: No option is selected, or the number is also the name of another option.
    """
    with _said(options):
        return answer.choose(typed, options)


def choose_many(typed: str, options: SelectOptions) -> frozenset[int]:
    """Return the indexes of the options that the text selects (see `midturn.question.answer`).

    Raises:
        NotAccepted: A part of the text selects no option.
    """
    with _said(options):
        return answer.choose_many(typed, options)


def chosen_values(options: SelectOptions, places: Collection[int], other: str | None) -> list[Json]:
    """Return the values of the selected options in their order, then the free text."""
    chosen: list[Json] = [options[place].value for place in sorted(places)]
    return chosen if other is None else [*chosen, {"other": other}]


def bounds(kind: MultiSelectType) -> str:
    """Return the allowed number of options in words, or an empty string without a limit."""
    most = len(kind.options) + kind.allow_other
    if kind.max is None or kind.max >= most:
        return f"choose {kind.min} or more" if kind.min else ""
    if kind.min == kind.max:
        return f"choose {kind.min}"
    return f"choose {kind.min} to {kind.max}" if kind.min else f"choose up to {kind.max}"


def numbers(count: int, several: str) -> str:
    """Return the range of option numbers as text.

    The result is `1`, `1 or 2`, or `several` with the count inserted.
    """
    return ("1", "1 or 2")[count - 1] if count in (1, 2) else several.format(count)


def example_numbers(count: int) -> str:
    """Return an example of selecting several options out of `count`."""
    return ("1", "1,2", "1,3", "1,3-4")[count - 1] if 1 <= count <= 4 else "1,3-5"  # noqa: PLR2004  from five on, one example fits all


def is_option(typed: str, options: SelectOptions) -> bool:
    """Return whether the text names an option."""
    return named_option(typed, options) is not None


@contextmanager
def _said(options: SelectOptions) -> Generator[None]:
    try:
        yield
    except NotChosen as error:
        typed = one_line(error.typed)
        if error.is_both:
            said = (
                f"{typed} is a number and a name here: type {typed}. for the number, ={typed} for"
                " the name."
            )
        elif error.is_range:
            said = (
                f"{typed} is not a range of numbers from 1 to {len(options)}."
                if len(options) > 1
                else f"{typed} is not an option; type 1."
            )
        else:
            said = (
                f"{typed} is not an option; type {numbers(len(options), 'a number from 1 to {}')},"
                " or ? for help."
            )
        raise NotAccepted([said]) from None


# --------------------------------------------------------------------------------------------------
# Search in options: by substring, or by letters in the same order if no substring matches


class Match(Struct, frozen=True):
    """An option that matches the search, and the matching characters of its label."""

    place: int
    letters: frozenset[int] = frozenset()


class Matcher:
    """Searches options, ignoring case.

    A search matches substrings. If no option contains the text, letters in the same order match, so
    `mn` finds `main`.
    """

    def __init__(self, options: tuple[SelectOption, ...]) -> None:
        self._labels = [label(option) for option in options]
        self._folded = [_by_letter(text) for text in self._labels]
        self._meanings = [folded(description(option)) for option in options]

    def find(self, words: str) -> list[Match]:
        """Return the options that contain all words in their label or description.

        If no option does, return the options whose label contains the letters of each word in the
        same order.
        """
        wanted = folded(words).split()
        places = range(len(self._labels))
        exact = [hit for place in places if (hit := self._exactly(place, wanted)) is not None]
        return exact or [
            hit for place in places if (hit := self._loosely(place, wanted)) is not None
        ]

    def _exactly(self, place: int, wanted: list[str]) -> Match | None:
        text, origin = self._folded[place]
        letters: set[int] = set()
        for word in wanted:
            at = text.find(word)
            if at >= 0:
                letters.update(origin[at : at + len(word)])
            elif word not in self._meanings[place]:
                return None
        return Match(place, frozenset(letters))

    def _loosely(self, place: int, wanted: list[str]) -> Match | None:
        text, origin = self._folded[place]
        letters: set[int] = set()
        for word in wanted:
            at = -1
            for letter in word:
                at = text.find(letter, at + 1)
                if at < 0:
                    return None
                letters.add(origin[at])
        return Match(place, frozenset(letters))


def _by_letter(text: str) -> tuple[str, list[int]]:
    """Return the folded label, and the index in the label for each of its characters."""
    parts = [" " if letter == " " else folded(letter) for letter in text]
    return "".join(parts), [place for place, part in enumerate(parts) for _ in part]


# --------------------------------------------------------------------------------------------------
# Answers that may be unintended (empty text, no option, the first option) must be confirmed with a
# second Enter


EMPTY_TEXT = "the text is empty: press Enter again to send it"
EMPTY_SECRET = "nothing was typed: press Enter again to send an empty secret"  # noqa: S105 (it is none)


class Once:
    """Rejects the first Enter and accepts the second."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses

    def now(self) -> bool:
        """Return whether to ask for confirmation. Only the first call returns true."""
        refuses, self._refuses = self._refuses, False
        return refuses

    def not_any_more(self) -> None:
        """Require no confirmation any more, because a key showed the intent."""
        self._refuses = False


def empty_once(prompt: Prompt) -> Once:
    """Require confirmation of an empty answer, unless the question is optional or its initial
    answer is empty text.
    """
    return Once(refuses=not prompt.question.optional and initial(prompt) != "")


def unchosen_once(prompt: Prompt) -> Once:
    """Require confirmation of the initially highlighted option, unless there is an initial answer."""
    return Once(refuses=initial(prompt) is UNSET)


def unmarked_once(prompt: Prompt) -> Once:
    """Require confirmation of an empty selection if it is valid, the question is not optional
    and there is no initial answer.
    """
    kind = prompt.question.answer_type
    may_be = isinstance(kind, MultiSelectType) and kind.min == 0
    return Once(refuses=initial(prompt) is UNSET and not prompt.question.optional and may_be)


def unchosen(name: str) -> str:
    """Return the message that asks to confirm the highlighted option `name`."""
    return f"nothing was chosen yet: press Enter again to pick {name}"


def unmarked(key: str) -> str:
    """Return the message that asks to confirm an empty selection. `key` selects options."""
    return f"nothing is marked: {key} marks; press Enter again to send none"


def by_rule(draft: RuleDraft, typed: str, scope: Scope) -> Ruled:
    """Return an approval with the typed rule and its scope.

    Raises:
        NotAccepted: The text is not a valid rule, or the rule does not match this call.
    """
    if problem := draft.problem(typed):
        raise NotAccepted([problem])
    return Ruled(value=True, scope=scope, written=typed)


class ChosenScope:
    """The scope of a rule while the rule is being written.

    The initial scope is the project if it is allowed, or else the first allowed scope.
    """

    def __init__(self, draft: RuleDraft) -> None:
        self._draft = draft
        self.scope: Scope = draft.first_scope

    @property
    def can_change(self) -> bool:
        """Whether there is more than one scope."""
        return len(self._draft.scopes) > 1

    def change(self) -> None:
        """Select the next scope."""
        scopes = self._draft.scopes
        self.scope = scopes[(scopes.index(self.scope) + 1) % len(scopes)]

    def said(self, typed: str) -> list[str]:
        """Return sentences that describe the rule and its scope."""
        return [exact(sentence) for sentence in self._draft.said(typed, self.scope)]
