"""`midturn worker --deps-for`: each turn gets the dependencies of its author."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.stores.opening import FileStore
from midturn.stores.sync_forms import drive
from support.waiting import until

SHOP = """
import midturn as mt

SETTING = 7


@mt.tool(run="ask")
async def pay(ctx: mt.ToolContext) -> str:
    '''Pay.'''
    return f"paid for {ctx.deps}"


async def deps_for(conversation: str, author: str | None) -> str:
    return f"the shop of {author}"


store = mt.open_store("conversations")
agent = mt.Agent(mt.ScriptedModel([{"calls": [{"name": "pay"}]}, {"text": "Done."}]), tools=[pay], store=store)
"""


def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process whose files are all in one directory."""
    homes = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    return {"PATH": os.environ["PATH"], **homes}


def test_a_worker_process_gives_each_turn_the_dependencies_of_its_author(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    begin = (
        "import shop; [shop.agent.run_sync('Pay.', deps='a shop', author=author) for author in"
        " ('bo', 'carl')]"
    )
    subprocess.run(
        [sys.executable, "-c", begin], cwd=tmp_path, env=environment(tmp_path), check=True
    )
    store = FileStore(tmp_path / "conversations")
    for question in store.pending_sync():
        store.answer_sync(question, approve=True)
    command = [
        sys.executable,
        "-m",
        "midturn",
        "worker",
        "shop:agent",
        "--deps-for",
        "shop:deps_for",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            asyncio.run(until(lambda: not drive(store.open_turns()), seconds=120))
        finally:
            worker.terminate()
            worker.communicate(timeout=120)
    paid = [
        event.content
        for id in store.ids_sync()
        for event in store.read_sync(id).events
        if isinstance(event, ToolCallResponse)
    ]
    assert sorted(paid) == ["paid for the shop of bo", "paid for the shop of carl"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("shop", "Invalid function 'shop'. Expected MODULE:FUNCTION"),
        ("shop:nothing", "The module 'shop' has no 'nothing'"),
        ("shop:SETTING", "--deps-for shop:SETTING is a int. It must be a function"),
    ],
)
def test_invalid_deps_function_is_named(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    command = [sys.executable, "-m", "midturn", "worker", "shop:agent", "--deps-for", name]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, says in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_deps_and_deps_function_are_exclusive(tmp_path: Path) -> None:
    agent = mt.Agent(mt.ScriptedModel([]), store=mt.open_store(tmp_path))
    with pytest.raises(mt.ConfigError, match="`deps` and `deps_for` cannot be combined"):
        agent.work_sync(deps=1, deps_for=lambda conversation, author: (conversation, author))
