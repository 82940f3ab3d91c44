"""Local commands as tools."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from midturn.errors import Problem
from midturn.ports import ToolRun
from midturn.question.schema import check_schema
from midturn.question.schema_check import validate
from midturn.record.events import Source
from midturn.record.exchange import ToolDefinition
from midturn.record.outcome import Outcome, Success, ToolError
from midturn.sandbox.box import Box
from midturn.sandbox.marks import VARIABLE
from midturn.tools.docstring import Documentation
from midturn.tools.process import OUTPUT_CAP, ProcessEnd, Program, run_process
from midturn.tools.wire import WireError, WireWorkspace, is_question, read_outcome, request_document, taken_as_data
from midturn.values.json_value import Json, JsonObject, json_problem
from midturn.values.limits import DEFAULT_LIMITS
from midturn.values.text import OutputProtocol

# ----------------------------------------------------------------------------------------------------------------------
# A local command, as it is declared


DEFAULT_SECONDS: Final = 600.0
"""Seconds that a command may run."""


class CommandSpec(Struct, frozen=True, kw_only=True):
    """What to run, and what the model is told of it.

    `command` is a program and its words, or with `shell` a script and its words; the model's arguments follow those words as `"$1"`,
    `"$2"`, … in the order of the properties of `parameters`, the JSON Schema of a call's arguments (an argument left out is empty).
    `environment` maps names to values, or to None where our own value is passed on. `cwd` is relative to the workspace root; `timeout`
    is in seconds. Where there is a `summary`, the model is sent it alone, and finds the `description` with `describe_tools`.
    """

    name: str
    command: tuple[str, ...]
    shell: bool = False
    protocol: OutputProtocol = "text"
    summary: str = ""
    description: str = ""
    parameters: JsonObject = field(default_factory=lambda: arguments_schema({}, ()))
    environment: Mapping[str, str | None] = {}
    cwd: str = ""
    timeout: float = DEFAULT_SECONDS


def arguments_schema(parameters: Mapping[str, JsonObject], required: Sequence[str]) -> JsonObject:
    """Return the JSON Schema of a call's arguments from those of its parameters."""
    return {"type": "object", "properties": dict(parameters), "required": list(required), "additionalProperties": False}


def argument_problems(schema: JsonObject, arguments: Json) -> Sequence[Problem]:
    """Check a call's arguments against what was declared; every problem is listed."""
    if not isinstance(arguments, Mapping):
        return [Problem("", "the arguments must be one JSON object.")]
    if problem := json_problem(arguments, DEFAULT_LIMITS.json_depth):
        return [problem]

    if wrong := check_schema(schema):
        return [Problem("", f"the tool's own declaration of its arguments is wrong at {pointer}: {said}") for pointer, said in wrong]
    return validate(schema, arguments)


# ----------------------------------------------------------------------------------------------------------------------
# Environment of a child process: an allow-list, and the variables that its tool declares


_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "LANG", "TERM", "TMPDIR"),
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),  # those that POSIX names
    }
)


def child_environment(ours: Mapping[str, str], declared: Mapping[str, str | None]) -> dict[str, str]:
    """Build the environment of a child. `declared` maps names to values, or to None where our own value is passed on."""
    kept = {name: value for name, value in ours.items() if name in _PASSED_ON}
    return kept | {name: ours[name] if value is None else value for name, value in declared.items() if value is not None or name in ours}


# ----------------------------------------------------------------------------------------------------------------------
# Location of a command's program


class CommandError(Exception):
    """The command cannot be started; the message is for the model."""


def find_executable(name: str, cwd: Path, path: str) -> Path:
    """Return the absolute path of a program: a name with a slash is relative to `cwd`, another is looked up in `path`.

    Directories in `path` that are relative do not count: a repository could put its own `git` there.

    Raises:
        CommandError: There is no such program.
    """
    if "/" in name:
        found = cwd / name
        if found.is_file() and os.access(found, os.X_OK):
            return found
        problem = "is not executable" if found.exists() else "does not exist"
        raise CommandError(f"the command {found} {problem}. Do not retry; the configuration must be corrected.")
    absolute = os.pathsep.join(part for part in path.split(os.pathsep) if Path(part).is_absolute())
    if which := shutil.which(name, path=absolute):
        return Path(which)
    raise CommandError(f"the command `{name}` was not found in PATH. Do not retry; it must be installed, or the configuration corrected.")


_SHELL = "/bin/sh"
_LOOKED_AT = 16 * 1024  # bytes at the end of standard error: a failure names there what it could not open


class CommandTool:
    """A command that a model may call. Its processes run in the sandbox `box`, where one is given."""

    def __init__(self, spec: CommandSpec, workspace_id: str = "", box: Box | None = None) -> None:
        self.spec = spec
        self.documentation = Documentation(spec.summary, spec.description)
        self._workspace_id = workspace_id
        self._box = box
        self._definition = ToolDefinition(spec.name, spec.summary or spec.description, spec.parameters)

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: the summary alone where there is one; `describe_tools` has the description."""
        return self._definition

    def inquiry_source(self) -> Source:
        """Return `tool` and its registered name."""
        return Source.tool(self.spec.name)

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the command once (see `ports.Tool`)."""
        if problems := argument_problems(self._definition.parameters, run.call.arguments):
            listed = "\n".join(map(str, problems))
            return ToolError(f"The arguments of `{self.spec.name}` do not fit; nothing was run.\n{listed}")
        try:
            command = self._command(run)
            finished = await self._run(command, run.root)
            advice = self._advice(command, finished, run.root)
        except CommandError as error:
            return ToolError(f"`{self.spec.name}`: {error}")
        except (OSError, ValueError) as error:
            return ToolError(f"`{self.spec.name}` cannot be started: {_start_problem(error)}")
        outcome = self._outcome(finished, run)
        return replace(outcome, message=f"{outcome.message}\n\n{advice}") if advice and isinstance(outcome, ToolError) else outcome

    def _command(self, run: ToolRun) -> Program:
        root = Path(run.root).absolute()
        cwd = root / self.spec.cwd
        if not cwd.is_dir():
            raise CommandError(f"its `cwd` {cwd} is not a directory. Do not retry; the configuration must be corrected.")
        environment = {**child_environment(os.environ, self.spec.environment), VARIABLE: self.spec.name}
        argv = self._shell_argv(run) if self.spec.shell else self._argv(cwd, environment.get("PATH", os.defpath))
        return Program(
            argv=argv,
            cwd=str(cwd),
            environment=environment,
            stdin=request_document(run, WireWorkspace(str(root), self._workspace_id)),
            timeout=self.spec.timeout,
        )

    async def _run(self, command: Program, root: str) -> ProcessEnd:
        if self._box is None:
            return await run_process(command)
        path = command.environment.get("PATH", os.defpath)
        with self._box.around(command.argv, Path(root), command.cwd, path) as started:
            environment = {**started.environment, **command.environment, **_only("TMPDIR", started.environment)}
            return await run_process(replace(command, argv=started.confined.argv, enter=started.confined.enter, environment=environment))

    def _advice(self, command: Program, finished: ProcessEnd, root: str) -> str:
        """Return what the sandbox has to say of a failure."""
        if self._box is None or finished.status == 0:
            return ""
        said = _decoded(finished.stderr[-_LOOKED_AT:])
        return self._box.advice(command.argv[0], said, Path(root), command.environment.get("PATH", os.defpath))

    def _argv(self, cwd: Path, path: str) -> tuple[str, ...]:
        name, *words = self.spec.command
        return (str(find_executable(name, cwd, path)), *words)

    def _shell_argv(self, run: ToolRun) -> tuple[str, ...]:
        """Pass the model's arguments beside the script, never in it."""
        script, *words = self.spec.command
        arguments = cast("JsonObject", run.call.arguments)
        names = cast("JsonObject", self.spec.parameters.get("properties", {}))
        return (_SHELL, "-c", script, self.spec.name, *words, *(_word(arguments.get(name)) for name in names))

    def _outcome(self, finished: ProcessEnd, run: ToolRun) -> Outcome:
        match finished.ending:
            case "timeout":
                return self._stopped(f"was stopped after {self.spec.timeout:g} seconds", finished)
            case "overflow":
                return self._stopped(f"was stopped, because it wrote more than {OUTPUT_CAP // 2**20} MiB", finished)
            case "exited":
                return self._text(finished) if self.spec.protocol == "text" else self._document(finished, run)

    def _text(self, finished: ProcessEnd) -> Outcome:
        if finished.status == 0:
            written = _decoded(finished.stdout)
            return Success(written, warning=taken_as_data(self.spec.name) if is_question(written) else None)
        return self._stopped(_ended(finished.status), finished)

    def _document(self, finished: ProcessEnd, run: ToolRun) -> Outcome:
        """Read the outcome; a failing command may still say what went wrong in its own words."""
        try:
            outcome = read_outcome(finished.stdout, run.limits)
        except WireError as error:
            if finished.status != 0:
                return self._stopped(_ended(finished.status), finished)
            return self._no_outcome(error, finished, run)
        if finished.status == 0 or isinstance(outcome, ToolError):
            return outcome
        return self._stopped(_ended(finished.status), finished)

    def _no_outcome(self, error: WireError, finished: ProcessEnd, run: ToolRun) -> ToolError:
        written = _decoded(finished.stdout)
        shown = run.hide(written)
        if shown != written:  # replaced before a piece of the output is cut out and shown, not after
            error = WireError("it holds a secret of this call, and is not shown.")
            try:
                read_outcome(shown.encode(), run.limits)
            except WireError as cleaned:
                error = cleaned
        expected = 'one JSON document such as {"type":"success","content":"…"}'
        return ToolError(f"`{self.spec.name}` did not write an outcome to standard output (expected {expected}): {error}")

    def _stopped(self, how: str, finished: ProcessEnd) -> ToolError:
        """Report a failure with everything that was written, errors first."""
        written = [_decoded(stream).strip() for stream in (finished.stderr, finished.stdout)]
        return ToolError("\n\n".join([f"`{self.spec.name}` {how}.", *(text for text in written if text)]))


def _only(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    return {name: variables[name]} if name in variables else {}


def _word(value: Json) -> str:
    """Return an argument as one word of a command line: text as it is, nothing as an empty word, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _start_problem(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeError):
        return "an argument is not Unicode text (it has a lone surrogate). Remove it."
    if isinstance(error, ValueError):
        return "an argument has a NUL character (U+0000). Remove it."
    if error.errno == errno.E2BIG:
        return "the arguments are too long for a command line. Shorten them."
    return str(error.strerror or error)


def _ended(status: int | None) -> str:
    if status is None or status >= 0:
        return f"failed with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _decoded(stream: bytes) -> str:
    return stream.decode(errors="replace")
