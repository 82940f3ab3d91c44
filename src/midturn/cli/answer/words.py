"""What a VALUE on the command line means for a question with options: a number as in its list, a name, or JSON. A typo means nothing."""

from __future__ import annotations

from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.core.question.answer import answer_from_words
from midturn.core.question.answer_type import MultiSelectType, SelectType
from midturn.core.stream import OpenQuestion
from midturn.errors import AnswerError, Problem
from midturn.prompts.accept import NotAccepted
from midturn.prompts.choosing import choose, choose_many
from midturn.prompts.content import label

_LISTED = 20


def answer_of(question: OpenQuestion, words: str) -> Json:
    """Read the words as an answer.

    Raises:
        AnswerError: They name none of the options.
    """
    asked = question.question.asked(question.id)
    match asked.answer_type:
        case SelectType() | MultiSelectType() as kind if not _is_json(words):
            return _chosen(kind, words)
        case _:
            return answer_from_words(asked, words)


def own_words(question: OpenQuestion, words: str) -> Json:
    """Read the words as the person's own (`--other`).

    Raises:
        AnswerError: The question takes none.
    """
    match question.question.answer_type:
        case SelectType(allow_other=True):
            return {"other": words}
        case MultiSelectType(allow_other=True):
            return [{"other": words}]
        case SelectType() | MultiSelectType() as kind:
            raise AnswerError([Problem("", f"This question takes no other words. {_options(kind)}")])
        case _:
            raise AnswerError([Problem("", "This question has no options, and so no other words: give a VALUE.")])


def _chosen(kind: SelectType | MultiSelectType, words: str) -> Json:
    try:
        if isinstance(kind, MultiSelectType):
            return [kind.options[place].value for place in sorted(choose_many(words.strip(), kind.options))]
        return kind.options[choose(words.strip(), kind.options)].value
    except NotAccepted:
        other = " For something else, say so: `--other TEXT`." if kind.allow_other else ""
        raise AnswerError([Problem("", f"{words!r} is none of the options. {_options(kind)}{other}")]) from None


def _options(kind: SelectType | MultiSelectType) -> str:
    listed = ", ".join(f"{number} {label(option)}" for number, option in enumerate(kind.options[:_LISTED], 1))
    more = f", … ({len(kind.options)} in all)" if len(kind.options) > _LISTED else ""
    return f"They are: {listed}{more}."


def _is_json(words: str) -> bool:
    """Tell whether an object, a list or a string was written out."""
    if not words.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        read_json(words)
    except NotJson:
        return False
    return True
