"""Forms of every schema of the JSON Schema test suite are answered in a browser: by keyboard,
by touch, and without a script.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import UNSET
from playwright.sync_api import Browser

from midturn.events.types import InquiryAnswered
from midturn.question.json_value import Json
from midturn.question.question import Question
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from midturn.web.controls import Control, control_of
from support.browser import Elsewhere
from support.page_input import (
    KeyboardInput,
    PageInput,
    TouchInput,
    answer_as_json,
    answer_in,
    kinds,
)
from support.pages import ada, agent_with, asking
from support.schemas import WINDOW, suite
from support.serving import serving

HANDS = ("keys", "touch", "no script")
ONE_OF_EACH: Json = {
    "start": "2026-03-01",
    "minutes": 45,
    "notify": ["ana@example.org", "bo@example.org"],
    "urgent": True,
    "env": "production",
    "owner": {"name": "Ana", "phone": "030 12"},
    "at": "2026-03-01T14:05:00+01:00",
    "days": ["mon", "sun"],
}
SCHEMAS: list[tuple[Mapping[str, Any], list[Any]]] = [*suite(), (WINDOW, [ONE_OF_EACH])]


def held(schema: Mapping[str, Any], answers: list[Any]) -> tuple[Control | None, Json]:
    """Return an answer and the control that holds it; None if the form holds it only as JSON."""
    question = Question.schema("q", "?", schema)
    empty = control_of(question, UNSET)
    for answer in answers:
        holding = control_of(question, answer)
        if holding.kind == empty.kind and (
            not holding.form or not empty.form or _is_alike(kinds(empty.form), kinds(holding.form))
        ):
            return holding, answer
    return None, answers[0]


def _is_alike(drawn: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(wanted[pointer] == drawn[pointer] for pointer in wanted.keys() & drawn.keys())


HELD = [
    (place, *held(schema, answers)) for place, (schema, answers) in enumerate(SCHEMAS) if answers
]
FORMS = [one for one in HELD if one[1] is None or one[1].kind == "fields"]
OTHERS = [one for one in HELD if one not in FORMS]


class Asked:
    """A page for each schema, on one running server."""

    def __init__(self, address: str, store: ConversationStore) -> None:
        self.address, self.store = address, store

    def answered(
        self,
        hands: PageInput,
        schema: Mapping[str, Any],
        control: Control | None,
        value: Json,
        elsewhere: Elsewhere[Any],
    ) -> Json:
        """Ask, answer on the page, and return the recorded answer."""
        waiting = elsewhere(
            agent_with(self.store, asking(Question.schema("q", "?", schema))).run("Ask.")
        ).pending[0]
        hands.page.goto(f"{self.address}/q/{waiting.id}")
        answer_in(hands, control, value) if control else answer_as_json(hands, value)
        hands.page.wait_for_url(f"**/?done={waiting.id}")
        ((_, response),) = elsewhere(self.store.read(waiting.conversation)).pairs()
        assert isinstance(response, InquiryAnswered)
        return response.answer


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Asked]:
    store = FileStore(tmp_path_factory.mktemp("schemas"))
    with serving(inbox(store, user=ada)) as address:
        yield Asked(address, store)


@pytest.fixture(scope="module")
def apart() -> Generator[Elsewhere[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(asyncio.run, work).result(60)


@pytest.fixture(scope="module", params=HANDS)
def hands(request: pytest.FixtureRequest, chromium: Browser) -> Generator[tuple[str, PageInput]]:
    """A narrow page and a function that answers on it."""
    has_keys = request.param == "keys"
    context = chromium.new_context(
        viewport={"width": 320, "height": 640},
        has_touch=not has_keys,
        java_script_enabled=request.param != "no script",
        locale="en-US",
    )
    page = context.new_page()
    yield request.param, (KeyboardInput if has_keys else TouchInput)(page)
    context.close()


@pytest.mark.parametrize(
    ("place", "control", "value"), FORMS, ids=[str(place) for place, _, _ in FORMS]
)
def test_schema_form_is_answered(
    hands: tuple[str, PageInput],
    asked: Asked,
    apart: Elsewhere[Any],
    place: int,
    control: Control | None,
    value: Json,
) -> None:
    assert asked.answered(hands[1], SCHEMAS[place][0], control, value, apart) == value


def test_schema_without_a_form_is_answered(
    hands: tuple[str, PageInput], asked: Asked, apart: Elsewhere[Any]
) -> None:
    """Each in one of the three ways; with DEEP, in all of them."""
    way, used = hands
    wrong: list[tuple[int, Json, Json]] = []
    for place, control, value in OTHERS:
        if os.environ.get("DEEP") or place % len(HANDS) == HANDS.index(way):
            found = asked.answered(used, SCHEMAS[place][0], control, value, apart)
            wrong += [(place, value, found)] if found != value else []
    assert wrong == []


def test_every_satisfiable_schema_is_tested() -> None:
    """The other schemas of the suite accept no value."""
    assert len(FORMS) >= 28
    assert len(HELD) >= 205
    assert [
        schema
        for place, (schema, _) in enumerate(SCHEMAS)
        if place not in {one for one, _, _ in HELD}
    ] == [schema for schema, answers in SCHEMAS if not answers]
