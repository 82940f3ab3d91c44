"""Typed text as an answer, or as lines that say what is wrong with it."""

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
from midturn.question.schema_check import misfits
from midturn.question.text import exact
from midturn.terminal.prompts.answer_text import problem_text, wanted
from midturn.terminal.prompts.keys import Ruled, description, initial, label, one_line, pretty

ERRORS_SHOWN = 3


class NotAccepted(ValueError):  # noqa: N818 (it says what happened to the text)
    """The input does not fit; `lines` say why, fit to be shown, and `offset` where, if one place can be named."""

    def __init__(self, lines: list[str], offset: int | None = None) -> None:
        self.lines = lines
        self.offset = offset
        super().__init__("\n".join(lines))


def accept(prompt: Prompt, value: Json) -> Json:
    """Return the canonical answer.

    Raises:
        NotAccepted: The value does not fit the question.
    """
    try:
        return _checked(prompt, value)
    except AnswerError as error:
        raise NotAccepted(_lines(error.problems)) from None


def accept_json(prompt: Prompt, text: str) -> Json:
    """Read `text` as JSON and check it against the question.

    Raises:
        NotAccepted: It is not JSON, or does not fit the schema.
    """
    kind = prompt.question.answer_type
    asked = f"asked for: {wanted(kind.schema)}" if isinstance(kind, SchemaType) else ""
    if not text.strip():
        raise NotAccepted(["nothing was typed", asked])
    try:
        return _checked(prompt, read(text))
    except NotAccepted as error:
        raise NotAccepted([*error.lines, asked], error.offset) from None
    except AnswerError as error:
        raise NotAccepted(_lines(error.problems, problem_text)) from None


def accept_number(prompt: Prompt, text: str) -> Json:
    """Read a number and check it against the question.

    Raises:
        NotAccepted: It is not a number, or not within its limits.
    """
    try:
        value = read_json(text.strip())
    except NotJson:
        value = None
    if not is_number(value):
        raise NotAccepted([f"{exact(text.strip())} is not a number" if text.strip() else "nothing was typed: a number is asked for"])
    return accept(prompt, value)


def accept_arguments(prompt: Prompt, text: str) -> Json:
    """Read the edited arguments of a call, and check them against the parameters of the tool.

    Raises:
        NotAccepted: They are not a JSON object, or do not fit.
    """
    value = read(text)
    if not isinstance(value, Mapping):
        raise NotAccepted(["arguments are a JSON object: { ... }"])
    if problems := argument_problems(prompt.parameters, value):
        raise NotAccepted(_lines(problems, problem_text))
    return value


MOST_FIELDS = 5
"""So many arguments are edited one after the other; more, or none, as the JSON that they are."""


class Argument(Struct, frozen=True):
    """One argument of a call as it is edited: a text as text, everything else as JSON."""

    name: str
    text: str
    is_json: bool

    def value(self, typed: str) -> Json:
        """Return what was typed as the argument.

        Raises:
            NotAccepted: It is to be JSON, and is none.
        """
        return read(typed) if self.is_json else typed


def arguments_of(prompt: Prompt) -> tuple[Argument, ...]:
    """Return the arguments of a call that are edited one after the other; none where JSON is edited."""
    arguments = prompt.subject.call.arguments if isinstance(prompt.subject, CallSubject) else None
    if not isinstance(arguments, Mapping) or len(arguments) > MOST_FIELDS:
        return ()
    return tuple(
        Argument(name, value if isinstance(value, str) else pretty(value), not isinstance(value, str)) for name, value in arguments.items()
    )


def accept_argument(prompt: Prompt, arguments: JsonObject, argument: Argument, typed: str) -> JsonObject:
    """Return the arguments with one of them as it was typed, checked against the parameters of the tool.

    Raises:
        NotAccepted: It does not fit.
    """
    changed = {**arguments, argument.name: argument.value(typed)}
    before = argument_problems(prompt.parameters, arguments)
    if problems := tuple(one for one in argument_problems(prompt.parameters, changed) if one not in before):
        raise NotAccepted(_lines(problems, problem_text))
    return changed


def read(text: str) -> Json:
    """Read JSON.

    Raises:
        NotAccepted: The text is not JSON.
    """
    try:
        return read_json(text)
    except NotJson as error:
        raise NotAccepted([exact(str(error))], error.offset) from None


def argument_problems(parameters: JsonObject, arguments: JsonObject) -> tuple[Problem, ...]:
    """Return what is wrong with the arguments; where the tool does not say what it takes, or says it badly, it judges them itself."""
    if not parameters:
        return ()
    return misfits(parameters, arguments)


def _checked(prompt: Prompt, value: Json) -> Json:
    """Check an answer that is not a secret: those are never looked at here."""
    return cast("Json", prompt.question.check(value))


def _plain(problem: Problem) -> str:
    return problem.message


def _lines(problems: tuple[Problem, ...], say: Callable[[Problem], str] = _plain) -> list[str]:
    more = [f"and {len(problems) - ERRORS_SHOWN} more"] if len(problems) > ERRORS_SHOWN else []
    return [*(exact(say(problem)) for problem in problems[:ERRORS_SHOWN]), *more]


# ----------------------------------------------------------------------------------------------------------------------
# Options meant by a typed line, and the message where there is none


def choose(typed: str, options: SelectOptions) -> int:
    """Return the place of the one option that is meant (see `midturn.question.answer`).

    Raises:
        NotAccepted: Nothing is meant, or a number that is the name of another option.
    """
    with _said(options):
        return answer.choose(typed, options)


def choose_many(typed: str, options: SelectOptions) -> frozenset[int]:
    """Return the places that are meant (see `midturn.question.answer`).

    Raises:
        NotAccepted: A part means nothing.
    """
    with _said(options):
        return answer.choose_many(typed, options)


def chosen_values(options: SelectOptions, places: Collection[int], other: str | None) -> list[Json]:
    """Return what is chosen, in the order of the options; own words come last."""
    chosen: list[Json] = [options[place].value for place in sorted(places)]
    return chosen if other is None else [*chosen, {"other": other}]


def bounds(kind: MultiSelectType) -> str:
    """Say how many may be chosen, where that is limited."""
    most = len(kind.options) + kind.allow_other
    if kind.max is None or kind.max >= most:
        return f"choose {kind.min} or more" if kind.min else ""
    if kind.min == kind.max:
        return f"choose {kind.min}"
    return f"choose {kind.min} to {kind.max}" if kind.min else f"choose up to {kind.max}"


def numbers(count: int, several: str) -> str:
    """Name the numbers of options as a person says it: `1`, `1 or 2`; from three on with the words for `several`."""
    return ("1", "1 or 2")[count - 1] if count in (1, 2) else several.format(count)


def example_numbers(count: int) -> str:
    """Return an example of several numbers that all name one of so many options."""
    return ("1", "1,2", "1,3", "1,3-4")[count - 1] if 1 <= count <= 4 else "1,3-5"  # noqa: PLR2004  from five on, one example fits all


def is_option(typed: str, options: SelectOptions) -> bool:
    """Tell whether typed words name an option."""
    return named_option(typed, options) is not None


@contextmanager
def _said(options: SelectOptions) -> Generator[None]:
    try:
        yield
    except NotChosen as error:
        typed = one_line(error.typed)
        if error.is_both:
            said = f"{typed} is a number and a name here: type {typed}. for the number, ={typed} for the name."
        elif error.is_range:
            said = (
                f"{typed} is not a range of numbers from 1 to {len(options)}." if len(options) > 1 else f"{typed} is not an option; type 1."
            )
        else:
            said = f"{typed} is not an option; type {numbers(len(options), 'a number from 1 to {}')}, or ? for help."
        raise NotAccepted([said]) from None


# ----------------------------------------------------------------------------------------------------------------------
# Search of options by typed words: as they are, or else letter by letter


class Hit(Struct, frozen=True):
    """An option that was found, and which characters of its label were."""

    place: int
    letters: frozenset[int] = frozenset()


class Finder:
    """Options, folded once: `MAIN` finds `main`, and where nothing has `mn` in it, `mn` finds it, too."""

    def __init__(self, options: tuple[SelectOption, ...]) -> None:
        self._labels = [label(option) for option in options]
        self._folded = [_by_letter(text) for text in self._labels]
        self._meanings = [folded(description(option)) for option in options]

    def find(self, words: str) -> list[Hit]:
        """Return what has all words in its label or description; if nothing has, what has the letters of each, in order, in its label."""
        wanted = folded(words).split()
        places = range(len(self._labels))
        exact = [hit for place in places if (hit := self._exactly(place, wanted)) is not None]
        return exact or [hit for place in places if (hit := self._loosely(place, wanted)) is not None]

    def _exactly(self, place: int, wanted: list[str]) -> Hit | None:
        text, origin = self._folded[place]
        letters: set[int] = set()
        for word in wanted:
            at = text.find(word)
            if at >= 0:
                letters.update(origin[at : at + len(word)])
            elif word not in self._meanings[place]:
                return None
        return Hit(place, frozenset(letters))

    def _loosely(self, place: int, wanted: list[str]) -> Hit | None:
        text, origin = self._folded[place]
        letters: set[int] = set()
        for word in wanted:
            at = -1
            for letter in word:
                at = text.find(letter, at + 1)
                if at < 0:
                    return None
                letters.add(origin[at])
        return Hit(place, frozenset(letters))


def _by_letter(text: str) -> tuple[str, list[int]]:
    """Fold a label letter by letter; return where each folded letter came from, too."""
    parts = [" " if letter == " " else folded(letter) for letter in text]
    return "".join(parts), [place for place, part in enumerate(parts) for _ in part]


# ----------------------------------------------------------------------------------------------------------------------
# Answers that were not chosen (an empty text, no option, the first one): Enter sends them when pressed twice


EMPTY_TEXT = "that is an empty text: press Enter again to send it"
EMPTY_SECRET = "nothing was typed: press Enter again to send an empty secret"  # noqa: S105 (it is none)


class Once:
    """Refuses an answer once that may not be meant; the second time it is."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses

    def now(self) -> bool:
        """Tell whether to ask again."""
        refuses, self._refuses = self._refuses, False
        return refuses

    def not_any_more(self) -> None:
        """Take note of a key by which the answer is meant."""
        self._refuses = False


def empty_once(prompt: Prompt) -> Once:
    """Refuse an empty answer, unless the question may be skipped, or starts from an empty text."""
    return Once(refuses=not prompt.question.optional and initial(prompt) != "")


def unchosen_once(prompt: Prompt) -> Once:
    """Refuse the option that is highlighted from the start, unless the question starts from an answer."""
    return Once(refuses=initial(prompt) is UNSET)


def unmarked_once(prompt: Prompt) -> Once:
    """Refuse that nothing is marked, where it may be so, but the question is not optional and starts from no answer."""
    kind = prompt.question.answer_type
    may_be = isinstance(kind, MultiSelectType) and kind.min == 0
    return Once(refuses=initial(prompt) is UNSET and not prompt.question.optional and may_be)


def unchosen(name: str) -> str:
    """Say that no option was chosen yet; Enter picks the one with this name."""
    return f"nothing was chosen yet: press Enter again to pick {name}"


def unmarked(key: str) -> str:
    """Say that nothing is marked, and which key marks."""
    return f"nothing is marked: {key} marks; press Enter again to send none"


def by_rule(draft: RuleDraft, typed: str, scope: Scope) -> Ruled:
    """Return the yes of a person who has written a rule with this scope.

    Raises:
        NotAccepted: It is no rule, or none for this call.
    """
    if problem := draft.problem(typed):
        raise NotAccepted([problem])
    return Ruled(value=True, scope=scope, written=typed)


class ChosenScope:
    """The scope of a rule that is being written; it begins with the project."""

    def __init__(self, draft: RuleDraft) -> None:
        self._draft = draft
        self.scope: Scope = draft.first_scope

    @property
    def can_change(self) -> bool:
        """Whether there is another one."""
        return len(self._draft.scopes) > 1

    def change(self) -> None:
        """Choose the next one."""
        scopes = self._draft.scopes
        self.scope = scopes[(scopes.index(self.scope) + 1) % len(scopes)]

    def said(self, typed: str) -> list[str]:
        """Describe the rule with its scope."""
        return [exact(sentence) for sentence in self._draft.said(typed, self.scope)]
