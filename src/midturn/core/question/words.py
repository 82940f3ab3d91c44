"""What a person types as an answer, read in one way wherever words come from: a command line, a flag, a chat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.core.question.answer import YES_OR_NO, check_answer
from midturn.core.question.answer_type import Answerable, BooleanType, MultiSelectType, SecretType, SelectType
from midturn.core.question.choosing import NotChosen, choose, choose_many
from midturn.core.secret import SecretValue
from midturn.core.visible import exact
from midturn.errors import AnswerError, Problem

_SIGNS = {"👍": True, "✅": True, "✔": True, "👎": False, "❌": False, "✖": False}
_NO_SIGN = dict.fromkeys([0xFE0F, *range(0x1F3FB, 0x1F400)])  # how a sign is drawn, and in which colour of skin
_LISTED = 20


def parse_answer(question: Answerable, words: str) -> Json | SecretValue:
    """Return the canonical answer that words mean: JSON where that fits, else what is typed at a prompt (`yes`, `2`, `eu-1`, 👍).

    A number is the one in the list of options, several choices are separated by commas, and a typo is no answer: a person's own words are
    written as `{"other": "…"}`, and `null` skips an optional question.

    Raises:
        AnswerError: The words are no answer; it says in a sentence for the person what would be one.
    """
    kind = question.answer_type
    if isinstance(kind, SelectType | MultiSelectType) and not _is_skipped(question, words) and not _is_written_out(words):
        return check_answer(question, _chosen(kind, words.strip()))
    if isinstance(kind, BooleanType) and (said := yes_or_no(words)) is not None:
        return said
    return check_answer(question, _meant(question, words))


def answer_from_words(question: Answerable, text: str) -> Json:
    """Return what a VALUE means that was typed before its question was asked: what `parse_answer` says, else JSON, else the words.

    A secret is taken as it is. The result is unchecked: give it to `question.check`, whose errors then speak of what was typed.
    """
    if isinstance(question.answer_type, SecretType):
        return text
    try:
        return cast("Json", parse_answer(question, text))
    except AnswerError:
        meanings = [*_as_json(text), text]
        return next((meaning for meaning in meanings if _fits(question, meaning)), meanings[0])


def yes_or_no(words: str) -> bool | None:
    """Return what a person says with these words or this sign; None where it is neither yes nor no."""
    said = words.strip().casefold().translate(_NO_SIGN)
    return YES_OR_NO.get(said, _SIGNS.get(said))


def options_listed(kind: SelectType | MultiSelectType) -> str:
    """List the options with their numbers, in a sentence."""
    listed = ", ".join(f"{number} {exact(option.label)}" for number, option in enumerate(kind.options[:_LISTED], 1))
    more = f", … ({len(kind.options)} in all)" if len(kind.options) > _LISTED else ""
    return f"They are: {listed}{more}."


def _chosen(kind: SelectType | MultiSelectType, words: str) -> Json:
    try:
        if isinstance(kind, MultiSelectType):
            return [kind.options[place].value for place in sorted(choose_many(words, kind.options))]
        return kind.options[choose(words, kind.options)].value
    except NotChosen as error:
        typed = error.typed
        if error.is_both:
            said = f"{typed} is a number and a name here: write {typed}. for the number, ={typed} for the name."
        else:
            said = f"{typed!r} is none of the options. {options_listed(kind)}"
        raise AnswerError([Problem("", said)]) from None


def _meant(question: Answerable, words: str) -> Json:
    meanings = [*_as_json(words), words] if not isinstance(question.answer_type, SecretType) else [words]
    fitting = next((meaning for meaning in meanings if _fits(question, meaning)), None)
    if fitting is None and isinstance(question.answer_type, BooleanType) and not _is_skipped(question, words):
        raise AnswerError([Problem("", f"{words!r} is neither yes nor no. Answer yes or no.")])
    return meanings[0] if fitting is None else fitting


def _as_json(text: str) -> Iterator[Json]:
    try:
        yield read_json(text)
    except NotJson:  # then they are bare words
        return


def _is_skipped(question: Answerable, words: str) -> bool:
    return question.optional and words.strip() == "null"


def _is_written_out(words: str) -> bool:
    """Tell whether an object, a list or a string was written as JSON."""
    return words.lstrip().startswith(("{", "[", '"')) and any(True for _ in _as_json(words))


def _fits(question: Answerable, value: Json) -> bool:
    try:
        check_answer(question, value)
    except AnswerError:
        return False
    return True
