"""Chromium, controlled by the tests, and a real server."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.browser import Elsewhere

_TIMEOUT = 60_000
"""Timeout of expectations in milliseconds. It only guards against a hang: a busy machine may
need many seconds.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here as needing the browser, unless it names its real part itself."""
    # a string comparison, since this sees every test of the session in each worker
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            if item.get_closest_marker("real") is None:
                item.add_marker(pytest.mark.real("Chromium"))
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def chromium() -> Generator[Browser]:
    """The system's browser."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        new_context = browser.new_context

        def patient_context(**options: Any) -> BrowserContext:
            context = new_context(**options)
            context.set_default_timeout(_TIMEOUT)
            return context

        expect.set_options(timeout=_TIMEOUT)
        with patch.object(browser, "new_context", patient_context):
            yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Generator[Page]:
    """An empty page of a phone. Script errors fail the test."""
    context = chromium.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def disk(tmp_path: Path) -> ConversationStore:
    """A store on disk, which other processes can read."""
    return FileStore(tmp_path / "conversations")


@pytest.fixture
def elsewhere() -> Generator[Elsewhere[Any]]:
    """Run coroutines in another thread's event loop, since the browser library has one in this
    thread.
    """
    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(asyncio.run, work).result(60)
