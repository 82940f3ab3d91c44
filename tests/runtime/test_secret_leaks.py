"""Secrets do not leak from a tool.

Tested for each way to pass a secret to a tool, each way to leak it, and each encoding.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.tools.command import CommandSpec, CommandTool
from support.canary import ASK, ENCODINGS, LEAKS, SECRET, WRONG, tools

REPLIES = {"login.name": "Ann", "login.passphrase": [WRONG, SECRET]}
LIMITS = mt.Limits(tool_output=2_000)


class VisibleOutput:
    """All output of a turn that is visible outside the tool."""

    def __init__(self, root: Path, log: pytest.LogCaptureFixture) -> None:
        self.root = root
        self.store = mt.open_store(root / "conversations")
        self.seen: list[str] = []
        self._log = log

    def model(self, request: mt.ModelRequest) -> Any:
        """Call the tool, then finish. Records what the model is sent."""
        self.seen.append(repr((request.events, request.system)))
        call: Any = {"name": "login", "arguments": {}}
        return {"calls": [call]} if len(self.seen) == 1 else "Done."

    async def turn(self, tool: mt.Tool) -> None:
        """Run a turn with this tool, and record its output."""
        person = mt.ScriptedPrompter(REPLIES, unscripted="end_turn")
        agent = mt.Agent(
            mt.FunctionModel(self.model),
            tools=[tool],
            store=self.store,
            prompter=person,
            limits=LIMITS,
        )
        async with agent.stream("Log in.") as events:
            async for event in events:
                self.seen += [repr(event), *_chain(getattr(event, "exception", None))]
        self.seen += [repr(prompt) for prompt in person.prompts]

    async def foreign(self, act: Any, encode: Any) -> None:
        """Do the same in a loop of another program."""
        person = mt.ScriptedPrompter(REPLIES, unscripted="end_turn")
        conversation = await self.store.new("Log in.")
        try:
            async with mt.Inquirer(self.store, conversation, person, limits=LIMITS).call(
                "login", "call_1"
            ) as call:
                given = [await call.ask(ASK), await call.ask(ASK)]
                outcome = act(call.context, " ".join(encode(secret.reveal()) for secret in given))
                if isinstance(outcome, mt.NeedsInput):
                    await call.ask_form(outcome.form)
                self.seen.append(call.finish(outcome))
        except (
            Exception,  # noqa: BLE001  what the block raises is its caller's own; what is recorded counts
            SystemExit,
        ):
            pass
        self.seen += [repr(prompt) for prompt in person.prompts]

    def everything(self) -> str:
        """Return all output as one text, with all written files and all log messages."""
        files = [
            path.read_text(errors="replace") for path in self.root.rglob("*") if path.is_file()
        ]
        logged = [logging.Formatter("%(message)s").format(record) for record in self._log.records]
        return "\n".join([*self.seen, *files, *logged])


def _chain(error: BaseException | None) -> Iterable[str]:
    while error is not None:
        yield repr(error)
        yield from getattr(error, "__notes__", [])
        error = error.__cause__


def holds(text: str, secret: str, encoded: str) -> bool:
    """Return whether a text contains the secret, plain, in this encoding or in another one."""
    ways = {
        encoded,
        secret,
        repr(secret)[1:-1],
        json.dumps(encoded)[1:-1],
        json.dumps(encoded, ensure_ascii=False)[1:-1],
        repr(encoded)[1:-1],
    }
    return any(way in text for way in ways) or secret.partition(" ")[0] in text


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize("out", LEAKS)
def test_no_secret_of_a_call_leaks(
    out: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tried, found = 0, list[str]()
    for written, encode in ENCODINGS.items():
        for way, tool in [*tools(LEAKS[out], encode), ("in a foreign loop", None)]:
            caplog.clear()
            watched = VisibleOutput(tmp_path / f"{written} {way}", caplog)
            asyncio.run(watched.turn(tool) if tool else watched.foreign(LEAKS[out], encode))
            tried += 1
            text = watched.everything()
            assert "passphrase" in text
            found += [
                f"{way}, as {out}, as {written}"
                for secret in (SECRET, WRONG)
                if holds(text, secret, encode(secret))
            ]
    print(f"{out}: {tried} ways tried, {len(found)} found")  # noqa: T201  what `pytest -rP` shows
    assert (tried, found) == (8 * len(ENCODINGS), [])


COMMAND_LEAKS = {
    "text": 'print("used", written)',
    "failing": 'sys.exit("no login with " + written)',
    "an outcome": 'print(json.dumps({"type": "success", "content": written}))',
    "an error": 'print(json.dumps({"type": "error", "message": written, "trace": [written]}))',
    "garbage": 'print("x" * 290 + written)',
    "a duplicate key": 'print(\'{"a": 1, "a": 2\' + written)',
    "a question": "ask(text=written)",
    "its context": 'ask(text="And now?", context=written)',
    "a default": 'ask(text="And now?", default=written)',
    "a broken question": 'ask(text="And now?", colour=written, default=3)',
}
SCRIPT = """
import base64, json, sys
given = json.load(sys.stdin)["tool"]["answers"]
if "passphrase" not in given:
    question = {"id": "passphrase", "text": "The passphrase?", "answer_type": {"type": "secret"}}
    sys.exit(print(json.dumps({"type": "needs_input", "question": question})))
secret = given["passphrase"]
def ask(**parts):
    print(json.dumps({"type": "needs_input", "question": {"id": "next", "answer_type": {"type": "text"}, **parts}}))
"""


@pytest.mark.parametrize("leak", COMMAND_LEAKS)
@pytest.mark.parametrize(
    "written", ["secret", "json.dumps(secret)", "base64.b64encode(secret.encode()).decode()"]
)
def test_no_secret_of_a_command_leaks(
    leak: str, written: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = f"{SCRIPT}\nwritten = {written}\n{COMMAND_LEAKS[leak]}"
    spec = CommandSpec(
        name="login",
        command=(sys.executable, "-I", "-S", "-c", script),
        protocol="outcome",
        parameters={"type": "object"},
    )
    watched = VisibleOutput(tmp_path, caplog)

    asyncio.run(watched.turn(CommandTool(spec)))

    encoded = ENCODINGS[
        "base64" if "base64" in written else "JSON in ASCII" if "json" in written else "plain"
    ](WRONG)
    assert "passphrase" in watched.everything()
    assert not holds(watched.everything(), WRONG, encoded)
