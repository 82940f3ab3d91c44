"""Chromium, driven from here, and a real server that it speaks to."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.browser import Elsewhere


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the browser."""
    here = f"{Path(__file__).parent}/"  # compared as text: this looks at every test there is, in each worker
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.real("Chromium"))
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def chromium() -> Generator[Browser]:
    """Return the system's browser."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Generator[Page]:
    """Return an empty page of a telephone; what goes wrong in its scripts fails the test."""
    context = chromium.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def disk(tmp_path: Path) -> ConversationStore:
    """Return a store on disk, as other processes see it."""
    return FileStore(tmp_path / "conversations")


@pytest.fixture
def elsewhere() -> Generator[Elsewhere[Any]]:
    """Run something in a loop of its own, in another thread: the browser's library has one in this."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(asyncio.run, work).result(60)
