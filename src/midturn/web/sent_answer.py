"""From what a page sent back to the answer."""

from __future__ import annotations

from typing import Any, NoReturn, assert_never

from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json, JsonObject
from midturn.core.question import Question
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectOption, SelectType, TextType
from midturn.errors import AnswerError, Problem
from midturn.web.body import Fields
from midturn.web.controls import OTHER, native


def sent_answer(question: Question[Any], sent: Fields) -> Json:
    """Return the answer that was sent; a secret is the string that was typed.

    Raises:
        AnswerError: What was sent is not an answer; the message is for whoever sent it.
    """
    if sent.one("act") == "skip" and question.optional:
        return None
    match native(question):
        case BooleanType():
            return _yes_or_no(sent)
        case SelectType(options=options):
            return _chosen(options, sent)
        case MultiSelectType(options=options):
            return _all_chosen(options, sent)
        case TextType() | SecretType():
            return _typed_text(sent, question)
        case SchemaType(schema):
            return _typed_json(schema, sent)
        case _ as other:
            assert_never(other)


def _yes_or_no(sent: Fields) -> bool:
    match sent.one("answer"):
        case "yes":
            return True
        case "no":
            return False
        case _:
            return _refuse("Choose yes or no.")


def _chosen(options: tuple[SelectOption, ...], sent: Fields) -> Json:
    place = sent.one("answer")
    if place is None:
        _refuse("Choose one of the options.")
    return _option(options, place, sent)


def _all_chosen(options: tuple[SelectOption, ...], sent: Fields) -> Json:
    return [_option(options, place, sent) for place in sent.all("answer")]


def _option(options: tuple[SelectOption, ...], place: str, sent: Fields) -> Json:
    if place == OTHER:
        words = sent.text(OTHER).strip()
        return {"other": words} if words else _refuse("Write your own words into the field, or choose another option.")
    if place.isascii() and place.isdecimal() and len(place) <= len(str(len(options))) and int(place) < len(options):
        return options[int(place)].value
    return _refuse("Choose one of the options on this page.")


def _typed_text(sent: Fields, question: Question[Any]) -> str:
    text = sent.text("answer")
    if not text and sent.one("empty") != "meant":
        again = "Choose Skip to leave it out." if question.optional else "Send it once more to answer with an empty text."
        _refuse(f"Nothing was typed. {again}")
    return text


def _typed_json(schema: JsonObject, sent: Fields) -> Json:
    text = sent.text("answer").strip()
    if not text:
        _refuse("A number is needed." if schema.get("type") in {"integer", "number"} else "JSON is needed.")
    try:
        return read_json(text)
    except NotJson as error:
        if schema.get("type") in {"integer", "number"}:
            _refuse("This is not a number.")
        _refuse(f"This cannot be used: {error}.")


def _refuse(message: str) -> NoReturn:
    raise AnswerError([Problem("", message)])
