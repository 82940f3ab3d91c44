"""Local commands as tools. A command reads the JSON request on standard input and writes the
outcome to standard output.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from midturn.errors import Problem, QuestionError
from midturn.events.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.events.types import Source
from midturn.exchange import ToolDefinition
from midturn.ports import ToolRun
from midturn.question.form import Form
from midturn.question.json_text import read_json
from midturn.question.json_value import (
    DEFAULT_LIMITS,
    Json,
    JsonObject,
    Limits,
    SecretValue,
    json_problem,
)
from midturn.question.schema import check_schema
from midturn.question.schema_check import validate
from midturn.question.text import OutputProtocol
from midturn.security.process_ancestry import VARIABLE
from midturn.security.tool_sandbox import ToolSandbox
from midturn.tools.names import Documentation
from midturn.tools.process import OUTPUT_CAP, ProcessEnd, ProcessSpec, run_process

_MAX_SHOWN_LENGTH = 300  # maximum length of invalid output in a message, in characters
_FIELDS: Mapping[str, frozenset[str]] = {
    "success": frozenset({"content"}),
    "error": frozenset({"message", "trace", "transient"}),
    "needs_input": frozenset({"question", "questions"}),
}


class WireError(Exception):
    """The output of a command is not a valid outcome. The message contains the reason and the
    expected format.
    """


class WireWorkspace(Struct, frozen=True):
    """The workspace in the `context` of a request."""

    root: str
    id: str = ""


def request_document(run: ToolRun, workspace: WireWorkspace) -> bytes:
    """Return the JSON request for a command's standard input. Only this function writes secrets in
    plain text.
    """
    answers = {
        name: value.reveal() if isinstance(value, SecretValue) else value
        for name, value in run.answers.items()
    }
    unanswered: JsonObject = {"unanswered": dict(run.unanswered)} if run.unanswered else {}
    document: JsonObject = {
        "tool": {
            "name": run.call.name,
            "arguments": run.call.arguments,
            "answers": answers,
            **unanswered,
        },
        "context": {
            "root": workspace.root,
            "action": "run",
            "workspace_id": workspace.id,
            "conversation_id": run.conversation,
        },
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read_outcome(stdout: bytes, limits: Limits = DEFAULT_LIMITS) -> Outcome:
    """Parse exactly one outcome document.

    Raises:
        WireError: The output is not a valid outcome: it is not JSON, or contains several documents,
            an unknown field or an invalid question.
    """
    document = _document(stdout, limits)
    kind = document.get("type")
    allowed = _FIELDS.get(kind) if isinstance(kind, str) else None
    if allowed is None:
        raise WireError(
            f"/type: must be one of {', '.join(_FIELDS)}; found {_shown(document.get('type'))}."
        )
    for key in document.keys() - allowed - {"type"}:
        raise WireError(f"/{key}: unknown field; `{kind}` has {', '.join(sorted(allowed))}.")
    match kind:
        case "success":
            return Success(_text(document, "content"))
        case "error":
            return ToolError(
                _text(document, "message"), _trace(document), _flag(document, "transient")
            )
        case _:
            return NeedsInput(_form(document, limits))


def is_question(text: str) -> bool:
    """Return whether text is a valid `needs_input` document, which a command writes to ask a
    question.
    """
    if '"needs_input"' not in text:
        return False
    try:
        return isinstance(read_outcome(text.encode("utf-8", "replace")), NeedsInput)
    except WireError:
        return False


def taken_as_data(tool: str) -> str:
    """Return the warning about a question that was treated as data, because the command is not
    configured to ask questions.
    """
    key = f"conversation.tools.{tool}.protocol"
    return (
        f"it wrote a question, which was treated as data and not asked. To let it ask, set `{key} ="
        ' "outcome"`.'
    )


def _document(stdout: bytes, limits: Limits) -> JsonObject:
    """Parse strictly: the output must be one object in UTF-8, without duplicate keys, NaN or lone
    surrogates, and with limited depth.
    """
    if not stdout.strip():
        raise WireError("nothing was written.")
    try:
        found = read_json(stdout.decode())
    except ValueError as error:  # not UTF-8, or not JSON
        raise WireError(f"{error}; it begins {_begin(stdout)}") from None
    if not isinstance(found, dict):
        raise WireError(f"it must be one JSON object; found {_shown(found)}.")
    if problem := json_problem(found, limits.json_depth):
        raise WireError(str(problem))
    return cast("JsonObject", found)


def _form(document: JsonObject, limits: Limits) -> Form:
    """Parse the questions.

    Raises:
        WireError: The questions are invalid. The message lists every error with its JSON Pointer.
    """
    if len(document.keys() & {"question", "questions"}) != 1:
        raise WireError("`needs_input` has exactly one of `question` and `questions`.")
    try:
        if "questions" in document:
            return Form.from_json(document["questions"], limits=limits)
        return Form.from_json([document["question"]], limits=limits)
    except QuestionError as error:
        problems = [
            Problem(_pointer(problem.pointer, document), problem.message)
            for problem in error.problems
        ]
        raise WireError("the question is malformed:\n" + "\n".join(map(str, problems))) from None


def _pointer(pointer: str, document: JsonObject) -> str:
    """Translate a pointer if the document has a single `question`, which is checked as a list with
    one item.
    """
    return pointer if "questions" in document else pointer.replace("/questions/0", "/question", 1)


def _text(document: JsonObject, key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise WireError(
            f"/{key}: must be a string; found {_shown(value) if key in document else 'nothing'}."
        )
    return value


def _flag(document: JsonObject, key: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise WireError(f"/{key}: must be true or false; found {_shown(value)}.")
    return value


def _trace(document: JsonObject) -> tuple[str, ...]:
    value = document.get("trace", [])
    lines = value if isinstance(value, list) else [None]
    if not all(isinstance(line, str) for line in lines):
        raise WireError(f"/trace: must be an array of strings; found {_shown(value)}.")
    return tuple(str(line) for line in lines)


def _shown(value: Json) -> str:
    text = msgspec.json.encode(value).decode() if not isinstance(value, float) else repr(value)
    return text if len(text) <= _MAX_SHOWN_LENGTH else text[:_MAX_SHOWN_LENGTH] + "…"


def _begin(stdout: bytes) -> str:
    text = stdout.decode(errors="replace")
    return repr(text[:_MAX_SHOWN_LENGTH]) + ("…" if len(text) > _MAX_SHOWN_LENGTH else "")


# --------------------------------------------------------------------------------------------------
# Command tools


DEFAULT_SECONDS: Final = 600.0
"""Default time limit of a command in seconds."""


_NO_ARGUMENTS: Final[JsonObject] = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}


class CommandSpec(Struct, frozen=True, kw_only=True):
    """A command to run, with its description for the model.

    `command` is a program and its arguments, or with `shell` a script and its arguments. A script
    receives the model's arguments after its own, as `"$1"`, `"$2"`, … in the order of the
    properties of `parameters`, the JSON Schema of a call's arguments. Missing arguments are empty.
    `environment` maps names to values; None takes the value from midturn's own environment. `cwd`
    is relative to the workspace root. `timeout` is in seconds. If there is a `summary`, the model
    receives only the summary and reads the `description` with `describe_tools`.
    """

    name: str
    command: tuple[str, ...]
    shell: bool = False
    protocol: OutputProtocol = "text"
    summary: str = ""
    description: str = ""
    parameters: JsonObject = field(default_factory=lambda: _NO_ARGUMENTS)
    environment: Mapping[str, str | None] = {}
    cwd: str = ""
    timeout: float = DEFAULT_SECONDS


def argument_problems(schema: JsonObject, arguments: Json) -> Sequence[Problem]:
    """Return the errors in a call's arguments, checked against the declared schema."""
    if not isinstance(arguments, Mapping):
        return [Problem("", "the arguments must be one JSON object.")]
    if problem := json_problem(arguments, DEFAULT_LIMITS.json_depth):
        return [problem]

    if wrong := check_schema(schema):
        return [
            Problem(
                "", f"the JSON Schema of the tool's arguments is invalid at {pointer}: {message}"
            )
            for pointer, message in wrong
        ]
    return validate(schema, arguments)


# --------------------------------------------------------------------------------------------------
# Environment of a child process: allowed and declared variables


_ALLOWED_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "LANG", "TERM", "TMPDIR"),
        # the names that POSIX defines
        *(
            "LC_ALL",
            "LC_COLLATE",
            "LC_CTYPE",
            "LC_MESSAGES",
            "LC_MONETARY",
            "LC_NUMERIC",
            "LC_TIME",
        ),
    }
)


def child_environment(
    ours: Mapping[str, str], declared: Mapping[str, str | None]
) -> dict[str, str]:
    """Build the environment of a child process. `declared` maps names to values; None takes the
    value from midturn's own environment.
    """
    allowed = {name: value for name, value in ours.items() if name in _ALLOWED_VARIABLES}
    return allowed | {
        name: ours[name] if value is None else value
        for name, value in declared.items()
        if value is not None or name in ours
    }


# --------------------------------------------------------------------------------------------------
# Lookup of a command's program


class CommandError(Exception):
    """The command cannot be started. The message is for the model."""


def find_executable(name: str, cwd: Path, path: str) -> Path:
    """Return the absolute path of a program. A name with a slash is relative to `cwd`. Any other
    name is searched for in `path`.

    Relative directories in `path` are ignored, because a repository could contain its own `git`.

    Raises:
        CommandError: There is no such program.
    """
    if "/" in name:
        found = cwd / name
        if found.is_file() and os.access(found, os.X_OK):
            return found
        problem = "is not executable" if found.exists() else "does not exist"
        raise CommandError(
            f"the command {found} {problem}. Do not retry; the configuration must be corrected."
        )
    absolute = os.pathsep.join(part for part in path.split(os.pathsep) if Path(part).is_absolute())
    if which := shutil.which(name, path=absolute):
        return Path(which)
    raise CommandError(
        f"the command `{name}` was not found in PATH. Do not retry; it must be installed, or the"
        " configuration corrected."
    )


_SHELL = "/bin/sh"
# how many bytes at the end of standard error are searched for denied paths
_STDERR_TAIL = 16 * 1024


class CommandTool:
    """A command that a model may call. Its processes run in the sandbox `box`, if there is one."""

    def __init__(
        self, spec: CommandSpec, workspace_id: str = "", box: ToolSandbox | None = None
    ) -> None:
        self.spec = spec
        self.documentation = Documentation(spec.summary, spec.description)
        self._workspace_id = workspace_id
        self._box = box
        self._definition = ToolDefinition(
            spec.name, spec.summary or spec.description, spec.parameters
        )

    @property
    def definition(self) -> ToolDefinition:
        """The definition for the model. If there is a summary, it contains only the summary, and
        `describe_tools` returns the description.
        """
        return self._definition

    def inquiry_source(self) -> Source:
        """Return the source of the tool's questions: the kind `tool` and the registered name."""
        return Source.tool(self.spec.name)

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the command once (see `ports.Tool`)."""
        if problems := argument_problems(self._definition.parameters, run.call.arguments):
            listed = "\n".join(map(str, problems))
            return ToolError(
                f"The arguments of `{self.spec.name}` do not fit; nothing was run.\n{listed}"
            )
        try:
            command = self._command(run)
            finished = await self._run(command, run.root)
            advice = self._advice(command, finished, run.root)
        except CommandError as error:
            return ToolError(f"`{self.spec.name}`: {error}")
        except (OSError, ValueError) as error:
            return ToolError(f"`{self.spec.name}` cannot be started: {_start_problem(error)}")
        outcome = self._outcome(finished, run)
        return (
            replace(outcome, message=f"{outcome.message}\n\n{advice}")
            if advice and isinstance(outcome, ToolError)
            else outcome
        )

    def _command(self, run: ToolRun) -> ProcessSpec:
        root = Path(run.root).absolute()
        cwd = root / self.spec.cwd
        if not cwd.is_dir():
            raise CommandError(
                f"its `cwd` {cwd} is not a directory. Do not retry; the configuration must be"
                " corrected."
            )
        environment = {
            **child_environment(os.environ, self.spec.environment),
            VARIABLE: self.spec.name,
        }
        argv = (
            self._shell_argv(run)
            if self.spec.shell
            else self._argv(cwd, environment.get("PATH", os.defpath))
        )
        return ProcessSpec(
            argv=argv,
            cwd=str(cwd),
            environment=environment,
            stdin=request_document(run, WireWorkspace(str(root), self._workspace_id)),
            timeout=self.spec.timeout,
        )

    async def _run(self, command: ProcessSpec, root: str) -> ProcessEnd:
        if self._box is None:
            return await run_process(command)
        path = command.environment.get("PATH", os.defpath)
        with self._box.around(command.argv, Path(root), command.cwd, path) as started:
            environment = {
                **started.environment,
                **command.environment,
                **_only("TMPDIR", started.environment),
            }
            return await run_process(
                replace(
                    command,
                    argv=started.confined.argv,
                    enter=started.confined.enter,
                    environment=environment,
                )
            )

    def _advice(self, command: ProcessSpec, finished: ProcessEnd, root: str) -> str:
        """Return the sandbox's hint about a failure."""
        if self._box is None or finished.status == 0:
            return ""
        error_output = _decoded(finished.stderr[-_STDERR_TAIL:])
        return self._box.advice(
            command.argv[0], error_output, Path(root), command.environment.get("PATH", os.defpath)
        )

    def _argv(self, cwd: Path, path: str) -> tuple[str, ...]:
        name, *words = self.spec.command
        return (str(find_executable(name, cwd, path)), *words)

    def _shell_argv(self, run: ToolRun) -> tuple[str, ...]:
        """Pass the model's arguments to the script as parameters, so that they never become part of
        the script's text.
        """
        script, *words = self.spec.command
        arguments = cast("JsonObject", run.call.arguments)
        names = cast("JsonObject", self.spec.parameters.get("properties", {}))
        return (
            _SHELL,
            "-c",
            script,
            self.spec.name,
            *words,
            *(_word(arguments.get(name)) for name in names),
        )

    def _outcome(self, finished: ProcessEnd, run: ToolRun) -> Outcome:
        match finished.ending:
            case "timeout":
                return self._stopped(f"was stopped after {self.spec.timeout:g} seconds", finished)
            case "overflow":
                return self._stopped(
                    f"was stopped, because it wrote more than {OUTPUT_CAP // 2**20} MiB", finished
                )
            case "exited":
                return (
                    self._text(finished)
                    if self.spec.protocol == "text"
                    else self._document(finished, run)
                )

    def _text(self, finished: ProcessEnd) -> Outcome:
        if finished.status == 0:
            written = _decoded(finished.stdout)
            return Success(
                written, warning=taken_as_data(self.spec.name) if is_question(written) else None
            )
        return self._stopped(_ended(finished.status), finished)

    def _document(self, finished: ProcessEnd, run: ToolRun) -> Outcome:
        """Parse the outcome. A failed command can still report an error as its outcome."""
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
        # secrets are replaced before the output is cut, so that no part of a secret remains
        if shown != written:
            error = WireError("it contains a secret of this call and is not shown.")
            try:
                read_outcome(shown.encode(), run.limits)
            except WireError as cleaned:
                error = cleaned
        expected = 'one JSON document such as {"type":"success","content":"…"}'
        return ToolError(
            f"`{self.spec.name}` did not write an outcome to standard output (expected {expected}):"
            f" {error}"
        )

    def _stopped(self, how: str, finished: ProcessEnd) -> ToolError:
        """Return an error with the complete output, standard error first."""
        written = [_decoded(stream).strip() for stream in (finished.stderr, finished.stdout)]
        return ToolError(
            "\n\n".join([f"`{self.spec.name}` {how}.", *(text for text in written if text)])
        )


def _only(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    return {name: variables[name]} if name in variables else {}


def _word(value: Json) -> str:
    """Return an argument as one word. A string is unchanged, None is an empty word, and any other
    value is JSON.
    """
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
