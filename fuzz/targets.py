"""The eight fuzzed parsers.

Each takes bytes and fails if a promise is broken. The return value says how far the input got.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

import midturn as mt
from midturn.config.load import LoadRequest, load
from midturn.errors import AnswerError, ConfigError
from midturn.events.codec import decode_event, decode_lines, encode_event
from midturn.events.outcome import NeedsInput
from midturn.events.provider_view import provider_view
from midturn.events.types import OpaqueEvent
from midturn.events.window import Window, open_turn, turns
from midturn.question.json_text import NotJson, read_json
from midturn.question.question import Question
from midturn.question.schema import check_schema
from midturn.question.schema_check import validate
from midturn.question.text import exact, exact_block, prose
from midturn.question.walker import FormWalker, MisplacedReplyError
from midturn.stores.export import CopiedHistory
from midturn.stores.log_tail import FileEnd, committed_end, last_turn
from midturn.stores.memory_conversations import MemoryStore
from midturn.terminal.prompts.keys import code_line, one_line
from midturn.terminal.prompts.rich.keyboard import Key, Keyboard, Paste
from midturn.tools.command import WireError, read_outcome
from midturn.turn.inputs import Record
from midturn.turn.pending import pending
from midturn.turn.turn import Turn
from midturn.web.app import inbox
from support.form_oracle import Draw, action, expected_step, fold, form_of
from support.pages import HOST, ada, agent_with, asking
from support.turns import counting_ids, settings

Target: TypeAlias = Callable[[bytes], int]

_CODE = re.compile("⟨U\\+([0-9A-F]{4,6})⟩")
_ACTS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_STEPS = 300


def events(data: bytes) -> int:
    """Read lines of events: none is lost, none is trusted, and the turn that they leave open can
    be resumed.
    """
    lines = data.split(b"\n")
    found = decode_lines(lines, "events.jsonl")
    assert len(found) == len(lines)
    for line, event in zip(lines, found, strict=True):
        if isinstance(event, OpaqueEvent):
            assert encode_event(event) == line
        else:
            again = decode_event(encode_event(event), "events.jsonl:1")
            assert encode_event(again) == encode_event(event)
    CopiedHistory.of(lines)
    _read_from_the_end(data)
    for view in (turns, provider_view, functools.partial(pending, conversation="1")):
        view(found)
    window = open_turn(found)
    if window is not None:
        _take_up(window)
    return sum(not isinstance(event, OpaqueEvent) for event in found)


def _read_from_the_end(data: bytes) -> None:
    descriptor, name = tempfile.mkstemp()
    try:
        os.unlink(name)  # noqa: PTH108 (it is only a descriptor from now on)
        os.write(descriptor, data)
        file = FileEnd(descriptor, len(data))
        end = committed_end(file)
        assert 0 <= end <= len(data)
        assert not end or data[end - 1 : end] == b"\n"
        last_turn(file, end)
    finally:
        os.close(descriptor)


def _take_up(window: Window) -> None:
    turn, effects = Turn.resume(window.events, settings(), counting_ids(10_000))
    effects = (*effects, *turn.rest())
    assert len([effect for effect in effects if isinstance(effect, Record)]) <= _STEPS


def outcome(data: bytes) -> int:
    """Read a command's output: an outcome, or an error that says what is expected.

    Its questions can be written and read again.
    """
    try:
        found = read_outcome(data)
    except WireError as wrong:
        return _said(wrong)
    if isinstance(found, NeedsInput):
        for question in found.form.questions:
            assert msgspec.json.encode(question.persisted())
        return 2
    return 1


def _said(wrong: Exception) -> int:
    assert str(wrong)
    return 0


def schema(data: bytes) -> int:
    """Check a JSON Schema, and values against it: every problem has a place, nothing raises, and
    nothing is fetched.
    """
    try:
        given = read_json(data.decode("utf-8", "replace"))
    except NotJson:
        return 0
    if found := check_schema(given):
        assert all(problem.message for problem in found)
        return 1
    for value in (None, True, 1, 1.5, "", "a", [], [1, "a"], {}, {"a": 1}, given):
        validate(given, value)
    return 2


_USER = """
[conversation.tools.mine]
command = ["true"]
run = "ask"
result = "ask"
sandbox = true
[conversation.tools.unseen]
command = ["true"]
run = "skip"
[assistant.model]
id = "anthropic/claude-haiku-4-5"
"""


def configuration(data: bytes) -> int:
    """Read an unapproved workspace file over the user's file: an error, or settings that weaken
    nothing.
    """
    with _workspace(data) as request:
        try:
            loaded = load(request)
        except ConfigError as wrong:
            return _said(wrong)
    before, after = _settings(), loaded.settings
    assert {name for name, tool in after.tools.items() if tool.command} == {"mine", "unseen"}
    for name in ("mine", "unseen"):
        one, other = before.tools[name], after.tools[name]
        assert (other.command, other.environment, other.sandbox) == (
            one.command,
            one.environment,
            one.sandbox,
        )
        assert other.policy.run in {one.policy.run, "skip"}
        assert other.policy.result in {one.policy.result, "skip"}
    assert not str(after.assistant.model.id).startswith("scripted:")
    for name in before.limits.__struct_fields__:
        limit, tightened = getattr(before.limits, name), getattr(after.limits, name)
        assert tightened == limit or limit is None or tightened < limit, name
    return 1 + len(loaded.ignored)


class _workspace:  # noqa: N801 (it is used like a function)
    """A workspace in a temporary directory with one file, next to the user's own file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> LoadRequest:
        base = Path(self._folder.name)
        root = base / "work"
        (root / ".midturn").mkdir(parents=True)
        (root / ".midturn" / "config.toml").write_bytes(self._data)
        (base / "config.toml").write_text(_USER)
        return LoadRequest(
            cwd=root,
            root=root,
            environment={},
            user_file=base / "config.toml",
            state=base / "state",
        )

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


@functools.cache
def _settings() -> Any:
    with _workspace(b"") as request:
        return load(request).settings


def text(data: bytes) -> int:
    """Show a text: nothing in it acts on a terminal, and exact output can be read back, however
    it is cut.
    """
    shown = 0
    for given in (
        data.decode("utf-8", "surrogateescape"),
        data.decode("utf-32-le", "surrogatepass") if _is_utf32(data) else "",
    ):
        line, block, said = exact(given), exact_block(given), prose(given)
        assert _CODE.sub(lambda code: chr(int(code[1], 16)), line) == given
        assert _CODE.sub(lambda code: chr(int(code[1], 16)), block) == given
        for one in (line, one_line(given), code_line(given.replace("\n", ""))):
            assert not any(
                unicodedata.category(character) in _ACTS and character not in "\u200c\u200d"
                for character in one
            ), one
        assert not any(
            unicodedata.category(character) in _ACTS and character not in "\n\u200c\u200d"
            for character in block
        )
        assert not any(
            unicodedata.category(character) in _ACTS and character not in "\n\u200c\u200d"
            for character in said
        )
        for part in (given[: len(given) // 2], given[len(given) // 2 :]):
            assert not any(
                unicodedata.category(character) in _ACTS and character not in "\n\u200c\u200d"
                for character in prose(part)
            )
        shown += len(given)
    return shown


def _is_utf32(data: bytes) -> bool:
    return len(data) % 4 == 0 and all(
        int.from_bytes(data[at : at + 4], "little") <= 0x10FFFF for at in range(0, len(data), 4)
    )


def walker(data: bytes) -> int:
    """Navigate a form: its position equals that of an oracle without state, and a refused step
    changes nothing.
    """
    numbers = [
        Draw(data[at] % 12, data[at + 1] % 6, data[at + 2] % 31, data[at + 3] % 2 == 1)
        for at in range(1, len(data) - 3, 4)
    ]
    if not numbers:
        return 0
    size = 1 + data[0] % min(6, len(numbers))
    form = form_of(numbers[:size], review=data[0] >= 128)
    walk, taken = FormWalker(form), list[Any]()
    for draw in numbers[size:][:_STEPS]:
        step = walk.step()
        assert step == expected_step(form, fold(form, taken))
        happened = action(draw, step)
        try:
            walk.feed(happened)
        except (AnswerError, MisplacedReplyError):
            assert walk.step() == step
        else:
            taken.append(happened)
    return len(taken)


def keys(data: bytes) -> int:
    """Read terminal input: the keys do not depend on how it is cut, none is a control character,
    and nothing waits forever.
    """
    # Ctrl-C ends a paste, so the cut would matter
    given = data.decode("utf-8", "replace").replace("\x03", "")
    whole, parts = Keyboard(), Keyboard()
    pressed = whole.feed(given)
    piecewise = [key for character in given for key in parts.feed(character)]
    assert pressed == piecewise or len(given) > 4_000
    assert all(_is_harmless(key) for key in pressed)
    whole.flush()
    assert not whole.undecided
    return len(pressed)


def _is_harmless(key: Key) -> bool:
    return isinstance(key, Paste) or (len(key.key) > 1 or unicodedata.category(key.key) != "Cc")


def web(data: bytes) -> int:
    """Send a request to the page and its API: it always responds, never crashes, and accepts
    nothing from another origin.
    """
    lines = data.split(b"\n", 3)
    method, path, headers, body = [*lines, *([b""] * (4 - len(lines)))]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1").strip().upper() or "GET",
        "scheme": "http",
        "path": "/" + path.partition(b"?")[0].decode("utf-8", "replace").lstrip("/"),
        "raw_path": path,
        "query_string": path.partition(b"?")[2],
        "root_path": "",
        "headers": [(b"host", HOST.encode()), *_headers(headers)],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 7478),
    }
    if scope["path"].startswith("/api/events") or scope["path"].startswith("/events"):
        return 0  # event streams never end
    status = asyncio.run(_asked(scope, body))
    assert 200 <= status < 500, status
    return status < 400


def _headers(line: bytes) -> list[tuple[bytes, bytes]]:
    pairs = (part.partition(b":") for part in line.split(b"|") if b":" in part)
    return [
        (name.strip().lower(), value.strip())
        for name, _, value in pairs
        if name.strip().lower() != b"host"
    ]


async def _asked(scope: Mapping[str, Any], body: bytes) -> int:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(20):
        await _page()(dict(scope), receive, send)
    return next(message["status"] for message in sent if message["type"] == "http.response.start")


@functools.cache
def _page() -> Any:
    store = MemoryStore()
    questions = [
        Question.boolean("confirm", "Really?"),
        Question.select("where", "Where?", ["a", "b"]),
        Question.text("note", "Note?"),
    ]
    for question in questions:
        _started(agent_with(store, asking(question)))
    return inbox(store, user=ada, resume=False)


def _started(agent: mt.Agent) -> None:
    """Run a turn until it is suspended, in a thread because a loop runs in this one."""
    thread = threading.Thread(target=lambda: asyncio.run(agent.run("Ship it.")))
    thread.start()
    thread.join()


TARGETS: Mapping[str, Target] = {
    "events": events,
    "outcome": outcome,
    "schema": schema,
    "configuration": configuration,
    "text": text,
    "walker": walker,
    "keys": keys,
    "web": web,
}
