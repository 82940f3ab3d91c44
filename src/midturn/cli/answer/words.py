"""What a VALUE on the command line means: what a person would type, read as everywhere. A typo means nothing."""

from __future__ import annotations

from typing import cast

from midturn.core.json_value import Json
from midturn.core.question.answer_type import MultiSelectType, SelectType
from midturn.core.question.words import options_listed
from midturn.core.stream import OpenQuestion
from midturn.errors import AnswerError, Problem


def answer_of(question: OpenQuestion, words: str) -> Json:
    """Read the words as an answer to a question that is no secret.

    Raises:
        AnswerError: They mean none.
    """
    try:
        return cast("Json", question.question.parse(words))
    except AnswerError as error:
        kind = question.question.answer_type
        if isinstance(kind, SelectType | MultiSelectType) and kind.allow_other:
            raise AnswerError([*error.problems, Problem("", "For something else, say so: `--other TEXT`.")]) from None
        raise


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
            raise AnswerError([Problem("", f"This question takes no other words. {options_listed(kind)}")])
        case _:
            raise AnswerError([Problem("", "This question has no options, and so no other words: give a VALUE.")])
