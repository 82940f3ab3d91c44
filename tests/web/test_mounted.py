"""The inbox inside other applications, as the examples mount it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from support.pages import OWN

EXAMPLES = Path(__file__).parents[2] / "examples" / "web"
ASK = {"fastapi": ("post", "/tasks?text=Ship+it"), "django": ("get", "/tasks?text=Ship+it")}


@pytest.fixture(params=sorted(ASK))
def client(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Generator[tuple[TestClient, str]]:
    """Serve an example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module(f"with_{request.param}")
    app = module.app if request.param == "fastapi" else module.application
    with TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 50000)) as browser:
        browser.headers["Accept"] = "text/html"
        yield browser, request.param
    for name in ("deploying", f"with_{request.param}"):
        sys.modules.pop(name, None)


@pytest.mark.filterwarnings("ignore")  # warnings of the frameworks
def test_application_agent_continues_after_an_answer_on_its_page(
    client: tuple[TestClient, str],
) -> None:
    browser, name = client
    assert browser.get("/inbox/").status_code == 401
    assert browser.get("/inbox/api/questions").status_code == 401
    assert "You're all caught up" in browser.get("/login?name=ada").text  # redirects to the page
    method, path = ASK[name]
    begun = browser.request(method, path).json()
    assert begun["status"] == "suspended"
    page = browser.get("/inbox/").text
    assert "Deploy to production?" in page
    assert 'href="/inbox/q/' in page
    assert (
        browser.get(page.split('href="')[1].split('"')[0])
        .headers["content-type"]
        .startswith("text/css")
    )
    not_yet = ""
    for answer in ({"answer": "yes"}, {"answer": "1", "act": "answer"}):
        question = _next(browser, not_yet)
        sent = browser.post(
            f"/inbox/q/{question['id']}", data=answer, headers=OWN, follow_redirects=False
        )
        assert (sent.status_code, sent.headers["location"]) == (
            303,
            f"/inbox/?done={question['id']}",
        )
        assert "ada (web) answered" in browser.get(sent.headers["location"]).text
        not_yet = question["id"]
    conversation = f"/inbox/c/{begun['conversation']}"
    for _ in range(200):
        if "It is live." in browser.get(conversation).text:
            break
        time.sleep(0.05)
    assert "production is live in us-2." in browser.get(conversation).text


def _next(browser: TestClient, answered: str) -> dict[str, str]:
    """Wait for a question other than the last answered one."""
    for _ in range(200):
        found: list[dict[str, str]] = browser.get("/inbox/api/questions").json()
        if found and found[0]["id"] != answered:
            return found[0]
        time.sleep(0.05)
    return pytest.fail("nothing was asked")
