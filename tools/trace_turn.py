"""Traces one answer through the code: from the key that a user presses to the disk, and on to the
next model request.

An agent with one tool asks one question on a real pseudo terminal, and `y` is pressed. The tool
counts the source files through which control passes and the calls between them (`sys.setprofile`;
resuming a coroutine counts as a call). Polling for answers from elsewhere is left out, because it
depends on a timer. It also reports the calls of one step of the state machine, the fields that
hold the ID of an open question, and the sizes of modules, classes and functions.

    python tools/trace_turn.py [--walk] [--crossings] [DIRECTORY WITH src/midturn]

With a directory, another version is measured, such as a `git worktree` of an older commit.
`--walk` lists the functions in the order of their calls. The walk at the beginning of
ARCHITECTURE is an extract of that list, and a test compares them. `--crossings` lists the calls
between files as they are counted, marking the files that are new.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import pty
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Any, cast

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.exchange import ModelRequest, TextPart, ToolCallPart

HERE = Path(__file__).parents[1]
PROMPT = "Deploy to staging?"
SETTLED = 1.0  # seconds after which a prompt accepts keys


class Travels:
    """Counts calls between our source files, starting at the key."""

    def __init__(self, package: Path) -> None:
        self._package = str(package) + os.sep
        self._timer = str(package / "runtime" / "prompts.py"), "Elsewhere."
        self.on = False
        self.walk: list[str] = []
        self.crossed: list[str] = []
        self.files: set[str] = set()
        self.crossings = 0
        self.marks: dict[str, list[int]] = {}
        self.step: list[int] = [0, 0, 0]
        self._step: FrameType | None = None
        self._in_step: list[tuple[str, str]] = []

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call and the end of a step."""
        if not self.on:
            return
        if event == "return" and frame is self._step:
            self._end_step()
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(self._package):
            return
        here = file.removeprefix(self._package)
        if self._is_of_the_timer(frame):
            return
        there, caller = self._caller(frame)
        new = "" if here in self.files else " (new)"
        self.files.add(here)
        self.walk.append(f"{here} {frame.f_code.co_qualname}")
        if new or (there and here != there):
            self.crossed.append(f"{there} {caller} -> {here} {frame.f_code.co_qualname}{new}")
        self.crossings += bool(there) and here != there
        if self._step is not None:
            self._in_step.append((there, here))
        elif frame.f_code.co_name == "step" and here == "turn/turn.py":
            self._step = frame

    def mark(self, name: str) -> None:
        """Store the counts up to now under a name."""
        if self.on and name not in self.marks:
            self.marks[name] = [len(self.files), self.crossings]
            self.crossed.append(f"== {name}")

    def _caller(self, frame: FrameType) -> tuple[str, str]:
        back = frame.f_back
        while back is not None and not back.f_code.co_filename.startswith(self._package):
            back = back.f_back
        return (
            (back.f_code.co_filename.removeprefix(self._package), back.f_code.co_qualname)
            if back
            else ("", "")
        )

    def _is_of_the_timer(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_filename == self._timer[0] and frame.f_code.co_qualname.startswith(
                self._timer[1]
            ):
                return True
            frame = frame.f_back
        return False

    def _end_step(self) -> None:
        crossed = [pair for pair in self._in_step if pair[0] != pair[1]]
        found = [len(self._in_step), len(crossed), len({here for _, here in self._in_step})]
        self.step = max(self.step, found)
        self._step, self._in_step = None, []


def play(answer: Path) -> None:
    """Run the agent on this terminal and write the counts to `answer`."""
    travels = Travels(Path(mt.__file__).parent)
    places: set[str] = set()

    async def deploy(env: str, ctx: mt.ToolContext) -> str:
        """Deploy the service."""
        sure = await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?"))
        return f"{env}: {sure}"

    def say(request: ModelRequest) -> TextPart | ToolCallPart:
        if isinstance(request.events[-1], ToolCallResponse):
            travels.mark("next model request")
            travels.on = False
            return TextPart("Done.")
        return ToolCallPart("call_1", "deploy", {"env": "staging"})

    watch(travels, places)
    sys.setprofile(travels.profile)
    with tempfile.TemporaryDirectory() as folder:
        agent = mt.Agent(mt.FunctionModel(say), tools=[deploy], store=mt.open_store(folder))
        agent.run_sync("Ship it.", prompter=mt.TerminalPrompter())
    sys.setprofile(None)
    answer.write_text(
        json.dumps(
            {
                "marks": travels.marks,
                "step": travels.step,
                "places": sorted(places),
                "walk": travels.walk,
                "crossed": travels.crossed,
            }
        )
    )


def watch(travels: Travels, places: set[str]) -> None:
    """Detect the key and every sync; inspect the state machine when the key arrives."""
    read = os.read

    def reading(fd: int, size: int) -> bytes:
        data = read(fd, size)
        if data == b"y" and not travels.on:
            places.update(holders())
            travels.on = True
        return data

    def syncing(name: str) -> None:
        sync = getattr(os, name)

        def synced(fd: int) -> None:
            sync(fd)
            travels.mark(
                "answer on disk" if "answer on disk" not in travels.marks else "result on disk"
            )

        setattr(os, name, synced)

    os.read = reading
    syncing("fdatasync")
    syncing("fsync")


def holders() -> Iterator[str]:
    """Yield the fields inside the state machine that hold an ID of the open question, except the
    recorded events.
    """
    turns = [
        one
        for one in gc.get_objects()
        if type(one).__name__ == "Turn" and type(one).__module__ == "midturn.turn.turn"
    ]
    entries = [entry for turn in turns for entry in turn.record.inquiries.values()]
    # versions up to 0.2 had no index entries
    asked = [getattr(entry, "attempt", entry).request for entry in entries]
    mine = frozenset(name for request in asked for name in (request.id, request.event_id))
    seen: set[int] = set()
    stack: list[Any] = list(turns)
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in fields_of(one):
            if holds(value, mine):
                yield f"{type(one).__name__}.{name}"
            stack.extend(inside(value))


def fields_of(one: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object of the state machine, except events."""
    if type(one).__module__.startswith("midturn.turn"):
        names = {
            *getattr(one, "__dict__", {}),
            *(name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())),
        }
        yield from ((name, getattr(one, name)) for name in sorted(names) if hasattr(one, name))


def holds(value: Any, mine: frozenset[str]) -> bool:
    """Return whether a field is an ID of the question or a container of one."""
    if isinstance(value, str):
        return value in mine
    return isinstance(value, dict | list | tuple | set | frozenset) and any(
        isinstance(one, str) and one in mine for one in cast("Iterable[Any]", value)
    )


def inside(value: Any) -> Iterator[Any]:
    """Yield the objects that a field refers to."""
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    else:
        yield value


def measure(source: Path) -> dict[str, Any]:
    """Run the turn on a pseudo terminal with the code in `source`."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "counted.json"
        child, terminal = pty.fork()
        if child == 0:
            environment = {**os.environ, "PYTHONPATH": str(source), "TERM": "xterm-256color"}
            os.execve(
                sys.executable, [sys.executable, __file__, "--play", str(answer)], environment
            )
        said = press(terminal, PROMPT, b"y")
        os.waitpid(child, 0)
        if not answer.exists():
            sys.exit(
                "The turn did not come to its end. The terminal"
                f" showed:\n{said.decode(errors='replace')}"
            )
        return json.loads(answer.read_text())


def press(terminal: int, prompt: str, key: bytes) -> bytes:
    """Press a key once the prompt accepts it; read until the program ends and return its
    output.
    """
    said, pressed, quiet = b"", False, time.monotonic()
    while True:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                data = os.read(terminal, 65_536)
            except OSError:  # the program has closed its side
                return said
            said, quiet = said + data, time.monotonic()
            if b"\x1b[6n" in data:
                os.write(terminal, b"\x1b[1;1R")
        elif not pressed and prompt.encode() in said and time.monotonic() - quiet > SETTLED:
            os.write(terminal, key)
            pressed = True


def sizes(package: Path) -> dict[str, str]:
    """Measure modules, classes and functions."""
    # the syntax trees contain no garbage, and scanning them repeatedly takes longer than parsing
    gc.disable()
    modules = {
        path: path.read_text() for path in package.rglob("*.py") if path.name != "__init__.py"
    }
    trees = {path: ast.parse(text) for path, text in modules.items()}
    lines = [len(text.splitlines()) for text in modules.values()]
    inside = {path: [*statements(tree)] for path, tree in trees.items()}
    classes = [
        (methods(one), one.name, path)
        for path, found in inside.items()
        for one in found
        if isinstance(one, ast.ClassDef)
    ]
    functions = [
        ((one.end_lineno or one.lineno) - one.lineno + 1, one.name, path.relative_to(package), one)
        for path, found in inside.items()
        for one in found
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    late = sum(
        isinstance(one, ast.Import | ast.ImportFrom)
        for *_, function in functions
        for one in statements(function)
    )
    most, largest, _ = max(classes)
    machine = max(one for one in classes if "turn" in one[2].parts)
    longest, name, where, _ = max(functions, key=itemgetter(0, 1, 2))
    return {
        "modules (without __init__), median lines": f"{len(lines)}, {statistics.median(lines):g}",
        "methods of the largest class": (
            f"{most} ({largest}); inside the machine: {machine[0]} ({machine[1]})"
        ),
        "longest function": f"{longest} lines ({name} in {where})",
        "imports inside functions": str(late),
    }


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a node, which are a tenth as many as the nodes."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for one in getattr(node, part, ()):
            yield one
            yield from statements(one)


def methods(one: ast.ClassDef) -> int:
    return sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in one.body)


def main(root: Path, lists: list[str]) -> None:
    """Measure a version and print the results."""
    counted = measure(root / "src")
    for name in lists:
        print("\n".join(counted[name]))
    for name, (files, crossings) in counted["marks"].items():
        print(f"from the key to the {name}: {files} files, {crossings} calls from one into another")
    calls, crossed, files = counted["step"]
    print(
        f"one step of the machine: {calls} calls, {crossed} of them into another file, {files}"
        " files"
    )
    print(
        f"fields that hold the open question's id: {len(counted['places'])}"
        f" ({', '.join(counted['places'])})"
    )
    for name, found in sizes(root / "src" / "midturn").items():
        print(f"{name}: {found}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        play(Path(sys.argv[2]))
    else:
        options = {"--walk": "walk", "--crossings": "crossed"}
        folders = [Path(given).resolve() for given in sys.argv[1:] if given not in options]
        main(
            folders[0] if folders else HERE,
            [name for option, name in options.items() if option in sys.argv],
        )
