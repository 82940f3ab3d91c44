"""Validate answers, and parse answers given as text. Used for people, models, configuration and the
inbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NoReturn, TypeAlias, TypeGuard, assert_never, cast

from midturn.errors import AnswerError, Problem
from midturn.question import answer_type as answers
from midturn.question.decision_words import ClearDecision, Unclear, read_decision, why_unclear
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import (
    DEFAULT_LIMITS,
    Json,
    JsonObject,
    Scalar,
    SecretValue,
    as_json,
    json_equal,
    json_problem,
    shown,
)
from midturn.question.schema_check import validate
from midturn.question.text import exact
from midturn.question.whole_numbers import whole_numbers

DEPTH_LIMIT = DEFAULT_LIMITS.json_depth
_VisibleType: TypeAlias = (
    answers.BooleanType
    | answers.SelectType
    | answers.MultiSelectType
    | answers.TextType
    | answers.SchemaType
)


# --------------------------------------------------------------------------------------------------
# Validation


def check_answer(
    question: answers.TypeTerms, value: object, depth_limit: int = DEPTH_LIMIT
) -> Json | SecretValue:
    """Validate an answer and return it in canonical form: the option as declared, choices in
    option order, a secret as `SecretValue`.

    JSON values are not converted: `"true"`, `1` and `true` are different. Python values are first
    converted to JSON: an `Enum` member to its value, a dataclass to an object.

    Raises:
        AnswerError: The value is not a valid answer. `problems` lists each invalid part of the
            value and what is allowed there. Secrets are never shown.
    """
    kind = question.answer_type
    if type(kind) is answers.SecretType:
        return None if value is None and question.optional else _secret(value)
    problem = None if isinstance(value, bool) else json_problem(value, depth_limit)
    # a `StrEnum` member is already a string, but its plain value is recorded
    if problem is not None or isinstance(value, Enum):
        converted = as_json(value)
        if converted is not value:
            value, problem = converted, json_problem(converted, depth_limit)
    if problem is not None:
        raise AnswerError([problem])
    if value is None and question.optional:
        return None
    return _of_type(kind, value)  # type: ignore[arg-type]  # json_problem found nothing, so it is JSON


def _of_type(kind: _VisibleType, value: Json) -> Json:
    match kind:
        case answers.BooleanType():
            return (
                value
                if isinstance(value, bool)
                else _refuse(f"the answer must be true or false, not {shown(value)}.")
            )
        case answers.TextType():
            return (
                value
                if isinstance(value, str)
                else _refuse(f"the answer must be a string, not {shown(value)}.")
            )
        case answers.SelectType():
            return chosen(kind, value)
        case answers.MultiSelectType():
            return all_chosen(kind, value)
        case answers.SchemaType(schema):
            return _under_schema(schema, value)
        case _:
            assert_never(kind)


def _secret(value: object) -> SecretValue:
    """Validate a secret without showing it in an error."""
    text = value.reveal() if isinstance(value, SecretValue) else value
    if not isinstance(text, str):
        return _refuse("the answer must be a string. It is a secret and not shown here.")
    if json_problem(text, 0) is not None:
        return _refuse(
            "the answer has a lone surrogate, which is not Unicode text. It is a secret and not"
            " shown here."
        )
    return SecretValue(text)


def _under_schema(schema: JsonObject, value: Json) -> Json:
    problems = validate(schema, value)
    if problems:
        whole = [
            (
                Problem("", f"the answer {message}")
                if not at and message.startswith("must ")
                else Problem(at, message)
            )
            for at, message in problems
        ]
        raise AnswerError(whole)
    return whole_numbers(schema, value)


def _refuse(message: str) -> NoReturn:
    raise AnswerError([Problem("", message)])


# Parse options given as text: list numbers or names
# --------------------------------------------------------------------------------------------------


SelectOptions: TypeAlias = tuple[answers.SelectOption, ...]

_OPTION_NUMBER = r"(?a)(\d{1,4})(\.?)"
_OPTION_NUMBERS = r"(?a)(\d{1,4}\.?(\s*-\s*\d{1,4})?[\s,]*)+"
_AROUND_DASH = r"\s*-\s*"
_RANGE = r"(?a)(\d{1,4})\s*-\s*(\d{1,4})"


class NotChosen(ValueError):  # noqa: N818 (the name describes the text)
    """The text does not match an option, is an invalid range (`is_range`), or is both the number of
    one option and the name of another (`is_both`).
    """

    def __init__(self, typed: str, *, is_both: bool = False, is_range: bool = False) -> None:
        self.typed = typed
        self.is_both = is_both
        self.is_range = is_range
        super().__init__(typed)


def choose(typed: str, options: SelectOptions) -> int:
    """Return the index of the option that a text selects: `2` or `2.` by number, `=2` or other text
    by name.

    Raises:
        NotChosen: No option matches, or the number is also the name of another option.
    """
    named = named_option(typed.removeprefix("="), options)
    number = re.fullmatch(_OPTION_NUMBER, typed)
    index = int(number[1]) - 1 if number else None
    if index is None or not 0 <= index < len(options):
        if named is None:
            raise NotChosen(typed)
        return named
    if named is not None and named != index and number and not number[2]:
        raise NotChosen(typed, is_both=True)
    return index


def choose_many(typed: str, options: SelectOptions) -> frozenset[int]:
    """Return the indexes of the options that a text selects: `all`, `none`, or numbers, ranges and
    names separated by commas.

    Raises:
        NotChosen: A number, range or name in the list matches no option.
    """
    word = typed.casefold()
    if word in {"all", "none"} and named_option(typed, options) is None:
        return frozenset(range(len(options))) if word == "all" else frozenset()
    if named_option(typed, options) is not None:
        return frozenset({choose(typed, options)})
    parts = [part.strip() for part in typed.split(",")]
    if re.fullmatch(_OPTION_NUMBERS, typed) or all(
        named_option(word, options) is not None for word in typed.replace(",", " ").split()
    ):
        parts = re.sub(_AROUND_DASH, "-", typed).replace(",", " ").split()
    return frozenset(place for part in parts if part for place in _part(part, options))


def named_option(typed: str, options: SelectOptions) -> int | None:
    """Return the index of the option with this name, or None."""
    wanted = answers.folded(typed)
    return next(
        (place for place, option in enumerate(options) if answers.folded(option.label) == wanted),
        None,
    )


def _part(part: str, options: SelectOptions) -> list[int]:
    span = re.fullmatch(_RANGE, part)
    if span is None or named_option(part, options) is not None:
        return [choose(part, options)]
    first, last = int(span[1]), int(span[2])
    if not 1 <= first <= last <= len(options):
        raise NotChosen(part, is_range=True)
    return list(range(first - 1, last))


# Answers given as text on a command line, in a flag or in a chat
# --------------------------------------------------------------------------------------------------


_MAX_LISTED = 20


def parse_answer(question: answers.TypeTerms, words: str) -> Json | SecretValue:
    """Parse an answer given as text. Valid JSON is parsed as JSON, other text in the same way as
    input at a prompt (`yes`, `2`, `eu-1`, 👍).

    A number selects the option at that position in the list. Several choices are separated by
    commas. A misspelt option is an error. An answer in the person's own words must be written as
    `{"other": "…"}`. `null` skips an optional question.

    Raises:
        AnswerError: The text is not an answer. The message tells the person what is allowed.
    """
    kind = question.answer_type
    if (
        isinstance(kind, answers.SelectType | answers.MultiSelectType)
        and not _is_skipped(question, words)
        and not _is_written_out(words)
    ):
        return check_answer(question, _chosen(kind, words.strip()))
    if isinstance(kind, answers.BooleanType):
        match read_decision(words):
            case ClearDecision(answer, None):
                return answer
            case ClearDecision():
                raise AnswerError(
                    [
                        Problem(
                            "",
                            f"{words!r:.200} contains the answer no and a reason. Answer only"
                            ' "no" and give the reason separately.',
                        )
                    ]
                )
            case Unclear() as unclear:
                raise AnswerError([Problem("", why_unclear(unclear))])
            case None:
                pass
    return check_answer(question, _best_reading(question, words))


def answer_from_words(question: answers.TypeTerms, text: str) -> Json:
    """Convert text to an answer, for text that was entered before the question was known. It is
    parsed with `parse_answer`. If that fails, it is parsed as JSON, or else returned unchanged.

    The text for a secret is returned unchanged. The result may be invalid: pass it to
    `question.check`.
    """
    if isinstance(question.answer_type, answers.SecretType):
        return text
    try:
        return cast("Json", parse_answer(question, text))
    except AnswerError:
        candidates = [*_as_json(text), text]
        return next(
            (candidate for candidate in candidates if _fits(question, candidate)), candidates[0]
        )


def options_listed(kind: answers.SelectType | answers.MultiSelectType) -> str:
    """List the options with their numbers, as a sentence."""
    listed = ", ".join(
        f"{number} {exact(option.label)}"
        for number, option in enumerate(kind.options[:_MAX_LISTED], 1)
    )
    more = f", … ({len(kind.options)} in all)" if len(kind.options) > _MAX_LISTED else ""
    return f"They are: {listed}{more}."


def _chosen(kind: answers.SelectType | answers.MultiSelectType, words: str) -> Json:
    try:
        if isinstance(kind, answers.MultiSelectType):
            return [kind.options[place].value for place in sorted(choose_many(words, kind.options))]
        return kind.options[choose(words, kind.options)].value
    except NotChosen as error:
        typed = error.typed
        if error.is_both:
            message = (
                f"{typed} is both a number and a name: write {typed}. for the number, ={typed} for"
                " the name."
            )
        else:
            message = f"{typed!r} is not one of the options. {options_listed(kind)}"
        raise AnswerError([Problem("", message)]) from None


def _best_reading(question: answers.TypeTerms, words: str) -> Json:
    candidates = (
        [*_as_json(words), words]
        if not isinstance(question.answer_type, answers.SecretType)
        else [words]
    )
    fitting = next((candidate for candidate in candidates if _fits(question, candidate)), None)
    if (
        fitting is None
        and isinstance(question.answer_type, answers.BooleanType)
        and not _is_skipped(question, words)
    ):
        raise AnswerError([Problem("", f"{words!r} is neither yes nor no. Answer yes or no.")])
    return candidates[0] if fitting is None else fitting


def _as_json(text: str) -> Iterator[Json]:
    try:
        yield read_json(text)
    except NotJson:  # not JSON, so the text is used as it is
        return


def _is_skipped(question: answers.TypeTerms, words: str) -> bool:
    return question.optional and words.strip() == "null"


def _is_written_out(words: str) -> bool:
    """Return whether an object, a list or a string was written as JSON."""
    return words.lstrip().startswith(("{", "[", '"')) and any(True for _ in _as_json(words))


def _fits(question: answers.TypeTerms, value: Json) -> bool:
    try:
        check_answer(question, value)
    except AnswerError:
        return False
    return True


# Validate options
# --------------------------------------------------------------------------------------------------


_MAX_SHOWN_OPTIONS = 8  # maximum number of options listed in a message


def chosen(
    kind: answers.SelectType | answers.MultiSelectType, value: Json, pointer: str = ""
) -> Json:
    """Return the matching option as declared, or the person's own text if that is allowed.

    Raises:
        AnswerError: The value is not an option, and the person's own text is not allowed.
    """
    if _is_scalar(value):
        for option in kind.options:
            if json_equal(option.value, value):
                return option.value
    elif kind.allow_other and _is_other(value):
        return value
    return _refuse_choice(
        f"{shown(value)} is not one of the options. Choose"
        f" {_allowed(kind)}.{_nearest(kind.options, value)}",
        pointer,
    )


def all_chosen(kind: answers.MultiSelectType, value: Json) -> list[Json]:
    """Return the chosen options in the order in which they were declared, followed by the person's
    own text.

    Raises:
        AnswerError: The value is not a list of distinct options, or their number is not allowed.
    """
    if not isinstance(value, list | tuple):
        return _refuse_choice(f"the answer must be an array of options, not {shown(value)}.")
    items = [
        chosen(kind, item, f"/{place}") for place, item in enumerate(cast("Sequence[Json]", value))
    ]
    ordered: list[Json] = [
        option.value
        for option in kind.options
        if any(_is_scalar(item) and json_equal(item, option.value) for item in items)
    ]
    own_words = [item for item in items if not _is_scalar(item)]
    if len(ordered) + min(len(own_words), 1) < len(items):
        return _refuse_choice(
            "the answer names a choice twice. Name each once, and at most one `other`."
        )
    most = len(kind.options) + kind.allow_other if kind.max is None else kind.max
    if not kind.min <= len(items) <= most:
        return _refuse_choice(
            f"{len(items)} {'choice is' if len(items) == 1 else 'choices are'} given;"
            f" {_between(kind.min, most)} allowed."
        )
    return ordered + own_words


def option_of(options: Sequence[answers.SelectOption], words: str) -> Scalar | None:
    """Return the value of the option with this label. If no label is equal to `words`, labels are
    compared after NFKC normalization, case folding and trimming.
    """
    exact = next((option.value for option in options if option.label == words), None)
    return (
        exact
        if exact is not None
        else next(
            (
                option.value
                for option in options
                if answers.folded(option.label) == answers.folded(words)
            ),
            None,
        )
    )


def _is_scalar(value: Json) -> TypeGuard[Scalar]:
    return isinstance(value, (bool, int, float, str))


def _is_other(value: Json) -> bool:
    """Return whether this is `{"other": "<text>"}` and the text is not blank."""
    if not isinstance(value, Mapping) or set(value) != {"other"}:
        return False
    words = value["other"]
    return isinstance(words, str) and bool(words.strip())


def _allowed(kind: answers.SelectType | answers.MultiSelectType) -> str:
    """List the options, up to the limit of a message."""
    first = ", ".join(shown(option.value) for option in kind.options[:_MAX_SHOWN_OPTIONS])
    more = f" … ({len(kind.options)} options)" if len(kind.options) > _MAX_SHOWN_OPTIONS else ""
    return f"{first}{more}" + (', or {"other": "<text>"}' if kind.allow_other else "")


def _nearest(options: Sequence[answers.SelectOption], value: Json) -> str:
    """Return a suggestion of the option that was probably meant."""
    meant = option_of(options, answers.SelectOption(value).label) if _is_scalar(value) else None
    return "" if meant is None else f" Did you mean {shown(meant)}?"


def _between(least: int, most: int) -> str:
    if least < most:
        return f"{least} to {most} are"
    return f"exactly {least} {'is' if least == 1 else 'are'}"


def _refuse_choice(message: str, pointer: str = "") -> NoReturn:
    raise AnswerError([Problem(pointer, message)])
