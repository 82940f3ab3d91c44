"""The page over a store in PostgreSQL: what another process asks and answers there is on it."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx2
import pytest

from midturn.core.question import Question
from midturn.store.postgres.store import PostgresStore
from midturn.web import inbox
from support.loops import in_a_loop
from support.pages import OWN, ada, agent_with, asking, asking_form
from support.serving import serving
from support.shown_pages import FORM

pytestmark = pytest.mark.real("PostgreSQL")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


@in_a_loop
async def test_what_is_answered_on_the_page_goes_on_there_and_what_others_answer_leaves_it(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    first = (await agent_with(elsewhere, asking(Question.boolean("q", "Deploy it?"))).run("Ship it.")).pending[0]
    second = (await agent_with(elsewhere, asking_form(FORM)).run("Prepare it.")).pending[0]
    agent = agent_with(here, asking(Question.boolean("q", "Deploy it?")), asking_form(FORM))
    with serving(inbox(agent, user=ada)) as address, httpx2.Client(base_url=address, headers={**OWN, "Accept": "text/html"}) as browser:
        page = browser.get("/").text
        assert "Deploy it?" in page
        assert "Prepare a release now?" in page
        assert browser.post(f"/q/{first.id}", data={"answer": "yes"}).status_code == 303
        _until(lambda: "completed" in browser.get(f"/c/{first.conversation}").text)
        await elsewhere.answer(second.id, cancel=True, user="grace")
        _until(lambda: "Prepare a release now?" not in browser.get("/").text)
