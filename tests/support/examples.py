"""Runs the examples of a document in order, in their own directory: Python, commands, files,
configuration.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from midturn.config.load import LoadRequest, load
from midturn.events.codec import decode_event
from midturn.events.types import OpaqueEvent
from midturn.models.script_reader import build_script, read_script
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.tools.command import read_outcome
from support.command_tables import assert_accepted
from support.documents import Block, is_updating, replace_block
from support.programs import NO_PYTEST_PLUGINS
from support.transcripts import IdMapping
from support.warm_commands import started_by_others

_SECONDS = 120
_SQL = ("CREATE", "GRANT")
_MIDTURN = """#!/bin/sh
case "$*" in
*--print-config*) PATH="${{PATH#*:}}" exec {midturn} "$@" ;;
*) exec {forked} '' "$@" ;;
esac
"""
_PYTHON = """#!/bin/sh
case "$1" in
*.py) program="$PWD/$1"; shift; exec {forked} "$program" "$@" ;;
*) exec {python} "$@" ;;
esac
"""


class Examples:
    """The examples of one document. `home` is the user's home, `root` the working directory of
    the examples.
    """

    def __init__(self, directory: Path) -> None:
        self.root = directory / "example"
        self.home = directory / "home"
        self.root.mkdir()
        self.home.mkdir()
        self._programs = _programs(directory / "programs")
        self._names = IdMapping()
        self._status = 0
        self._printed = ""
        self._module = types.ModuleType("example")

    def play(self, block: Block) -> None:
        """Run or check a block. An unsupported kind of block is an error."""
        if block.file:
            self._write(block, block.file)
        match block.language:
            case "python":
                self._python(block)
            case "text":
                self._text(block)
            case "console":
                self._console(block)
            case "toml":
                self._toml(block)
            case "json":
                self._json(block)
            case "sh" if block.file:
                pass  # a console block runs it
            case "sh" if block.marks == ("operator",):
                _check_operator_commands(block)
            case "js":
                _check_javascript(block)
            case "sql":
                assert all(
                    statement.split()[0] in _SQL
                    for statement in block.text.strip().removesuffix(";").split(";")
                ), block.place
            case _:
                raise AssertionError(
                    f"{block.place}: a block of the kind `{block.info}` is not checked by anybody"
                )

    def finish(self) -> None:
        """Fail if the last Python block printed something that no `text` block shows."""
        assert not self._printed, (
            f"the last Python block printed, and no `text` block shows it:\n{self._printed}"
        )

    @contextlib.contextmanager
    def as_current(self) -> Generator[None]:
        """Work in the examples' directory, as their module. Modules imported from there are
        unloaded at the end.
        """
        before = set(sys.modules)
        with contextlib.chdir(self.root):
            sys.modules["example"] = self._module
            sys.path.insert(0, str(self.root))
            try:
                yield
            finally:
                sys.path.remove(str(self.root))
                del sys.modules["example"]
                for name in set(sys.modules) - before:
                    if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.root)):
                        del sys.modules[name]

    # Python
    # ----------------------------------------------------------------------------------------------

    def _python(self, block: Block) -> None:
        self.finish()
        code = compile(
            "\n" * (block.line - 1) + block.text, str(block.document), "exec", dont_inherit=True
        )
        if "pytest" in block.marks:
            printed = self._run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "-p",
                    "no:cacheprovider",
                    *NO_PYTEST_PLUGINS,
                    block.file or "",
                ]
            )
            assert self._status == 0, f"{block.place}:\n{printed}"
        elif not block.file:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, vars(self._module))
            self._printed = printed.getvalue()

    def _text(self, block: Block) -> None:
        """Compare the text with the output of the Python block before it. Any other text needs a
        mark and has its own test.
        """
        if block.follows == "python" and not block.marks:
            printed, self._printed = self._printed, ""
            self._check(block, block.text, printed, lambda shown: replace_block(block, shown))
        else:
            assert block.marks, (
                f"{block.place}: this text follows no Python block, and says not what it is"
            )

    # Commands
    # ----------------------------------------------------------------------------------------------

    def _console(self, block: Block) -> None:
        """Run the commands of a block. Their output may be updated, but not their exit status,
        which the document promises.
        """
        played: list[tuple[str, str]] = []
        for command, expected in _commands(block):
            asks_status = "$?" in command
            assert asks_status or not self._status, (
                f"{block.place}: before `{command}`, show with `echo $?` that status {self._status}"
                " is meant"
            )
            shown, printed = self._commanded(command, expected)
            assert shown == printed or (is_updating() and not asks_status), _difference(
                block, command, shown, printed
            )
            played.append((command, printed))
        assert not self._status, (
            f"{block.place}: the last command ends with status {self._status}:\n{played[-1][1]}"
        )
        if is_updating():
            replace_block(block, "".join(f"$ {command}\n{printed}" for command, printed in played))

    def _commanded(self, command: str, shown: str) -> tuple[str, str]:
        """Run a command; return the document's text and the text it should have."""
        printed = self._run(
            ["bash", "-c", f"(exit {self._status}); {self._names.in_this_run(command)}"]
        )
        return shown, (
            shown if self._names.fits(shown, printed) else self._names.as_shown(shown, printed)
        )

    def _run(self, command: list[str]) -> str:
        """Run a program without a terminal, so that the run is detached; return its stdout and
        stderr.
        """
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            start_new_session=True,
            check=False,
        )
        self._status = done.returncode
        return done.stdout

    def _environment(self) -> dict[str, str]:
        programs = os.pathsep.join(
            (str(self._programs), str(Path(sys.executable).parent), os.environ["PATH"])
        )
        ours = {
            name: os.environ[name]
            for name in ("PYTHONPATH", "PYTEST_DEBUG_TEMPROOT")
            if name in os.environ
        }
        user = {
            "HOME": str(self.home),
            "MIDTURN_CFG_USER__NAME": "ana",
        }  # the login name differs between machines
        return {
            **ours,
            **user,
            "PATH": programs,
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    # Files
    # ----------------------------------------------------------------------------------------------

    def _write(self, block: Block, file: str) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        if block.text.startswith("#!"):
            path.chmod(0o755)

    def _toml(self, block: Block) -> None:
        kept = self.home / "checked.toml"
        kept.write_text(block.text, encoding="utf-8")
        match block.marks:
            case ():
                load(LoadRequest(cwd=self.root, user_file=kept, state=self.home / "state"))
            case ("script",):
                read_script(kept)
            case marks:
                assert marks == ("broken",), f"{block.place}: nobody knows what `{block.info}` is"

    def _json(self, block: Block) -> None:
        """Check JSON as the kind that the fence names."""
        document: Any = json.loads(block.text)
        match block.marks:
            case ("question",):
                Question[Any].from_json(document)
            case ("questions",):
                Form.from_json(document)
            case ("outcome",):
                read_outcome(block.text.encode())
            case ("event",):
                assert not isinstance(
                    read := decode_event(msgspec.json.encode(document), block.place), OpaqueEvent
                ), read
            case ("script",):
                build_script(document, origin=block.place)
            case marks:
                assert not marks, f"{block.place}: nobody knows what `{block.info}` is"

    def _check(self, block: Block, shown: str, printed: str, write: Callable[[str], None]) -> None:
        if self._names.fits(shown, printed):
            return
        anew = self._names.as_shown(shown, printed)
        assert is_updating(), _difference(block, "", shown, anew)
        write(anew)


def _check_javascript(block: Block) -> None:
    """Check the syntax, if Node is installed."""
    if node := shutil.which("node"):
        checked = subprocess.run(
            [node, "--input-type=module", "--check", "-"],
            input=block.text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, f"{block.place}: {checked.stderr}"


def _check_operator_commands(block: Block) -> None:
    """Check the options of each `midturn` command in a block that needs a server, a database or
    root to run.
    """
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        if words[:1] == ["midturn"]:
            assert_accepted(words[1:], block.place)


def _programs(directory: Path) -> Path:
    """Create `midturn` and `python` programs that fork a loaded process. Modules, lines of code
    and `--print-config` run as real programs.
    """
    directory.mkdir()
    *forked, _ = started_by_others()
    for name, text in {"midturn": _MIDTURN, "python": _PYTHON}.items():
        program = directory / name
        started = {
            "python": shlex.quote(sys.executable),
            "midturn": shlex.quote(str(Path(sys.executable).with_name("midturn"))),
        }
        program.write_text(text.format(forked=shlex.join(forked), **started), encoding="utf-8")
        program.chmod(0o755)
    return directory


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with its shown output. A backslash continues a
    command.
    """
    command: str | None = None
    shown: list[str] = []
    for line in block.text.splitlines(keepends=True):
        if command is not None and command.endswith("\\"):
            command = f"{command}\n{line.rstrip()}"
        elif line.startswith("$ "):
            if command is not None:
                yield command, "".join(shown)
            command, shown = line.removeprefix("$ ").rstrip("\n"), []
        else:
            assert command is not None, f"{block.place}: a console block begins with a command"
            shown.append(line)
    assert command is not None, f"{block.place}: a console block without a command"
    yield command, "".join(shown)


def _difference(block: Block, command: str, shown: str, printed: str) -> str:
    return f"{block.place}: {command}\n--- shown\n{shown}--- printed\n{printed}---"
