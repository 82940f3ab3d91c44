"""Previews of options on cards."""

from __future__ import annotations

from msgspec.structs import replace

from midturn.channels.card import PREVIEWS_ELSEWHERE, build_draft
from midturn.channels.port import Fits
from midturn.events.prompt import Prompt
from midturn.question.answer_type import SelectOption, SelectType
from support.prompt_catalogue import SELECT


def layouts(preview: str) -> Prompt:
    """Return a question with one preview."""
    kind = SelectType((SelectOption("wide", preview=preview), SelectOption("narrow")))
    return replace(
        SELECT,
        question=replace(SELECT.question, answer_type=kind, default="wide", context="Two layouts."),
    )


def test_a_preview_is_on_the_card() -> None:
    draft = build_draft(layouts("+--+\n|  |"), Fits(text=3_000, buttons=20))

    assert draft.lines == ("Two layouts.", "wide:", "    +--+", "    |  |")
    assert [*draft.acts.values()] == ["wide", "narrow"]


def test_preview_that_does_not_fit_keeps_the_question_answerable() -> None:
    draft = build_draft(layouts("x" * 5_000), Fits(text=3_000, buttons=20))

    assert draft.lines == ("Two layouts.", PREVIEWS_ELSEWHERE)
    assert draft.is_whole
    assert [*draft.acts.values()] == ["wide", "narrow"]
