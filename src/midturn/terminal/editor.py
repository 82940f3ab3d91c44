"""Runs the user's editor as the terminal's foreground job."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from midturn.terminal.device import Device, Restored
from midturn.terminal.prompts.plain_scene import Edit

_USUAL = ("nano", "vi")
_KILL_AFTER = 1.0
_DEFAULT_SIGNALS = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGPIPE,
)


class NoEdit(Exception):  # noqa: N818 (it says what the result is)
    """The text was not edited: no editor was found, or the editor failed. The message says why."""


async def edit(wanted: Edit, about: str, device: Device, restored: Restored) -> str:
    """Open `wanted.text` in the user's editor.

    Return the edited text without the comment about the question and the final line break.

    Raises:
        NoEdit: No editor was found, or the editor failed.
        TerminalGone: The terminal was closed during editing; the text is not submitted.
    """
    command = editor_command(os.environ)
    comment = comment_lines(wanted, about)
    with _draft(wanted, comment) as path:
        restored.restore()
        status = await _run([*command, str(path)], device, restored)
        device.check()
        if status != 0:
            raise NoEdit(f"{command[0]} exited with status {status}; the text is unchanged.")
        return without_comment(_edited(path, command[0]), comment)


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the command in `$VISUAL`, else in `$EDITOR`, else a common editor.

    Raises:
        NoEdit: There is no editor.
    """
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(name, ""))
        except ValueError as error:
            raise NoEdit(f"${name} cannot be read as a command: {error}.") from error
        if words:
            return words
    found = next((path for name in _USUAL if (path := shutil.which(name))), None)
    if found is None:
        raise NoEdit("No editor was found: set EDITOR to the command of your editor.")
    return [found]


def comment_lines(wanted: Edit, about: str) -> list[str]:
    """Return the lines of the comment below the text.

    They start with `//` if the text is JSON, and with `#` otherwise.
    """
    sign = "//" if wanted.suffix == ".json" else "#"
    return [f"{sign} {about}", f"{sign} These two lines are removed."]


def without_comment(written: str, comment: list[str]) -> str:
    """Remove the comment and the empty line before it, even if the comment was moved."""
    lines = written.split("\n")
    places = [place for place, line in enumerate(lines) if line.rstrip() in comment]
    if places and places[0] > 0 and not lines[places[0] - 1].strip():
        places.append(places[0] - 1)
    return "\n".join(line for place, line in enumerate(lines) if place not in places).removesuffix(
        "\n"
    )


@contextmanager
def _draft(wanted: Edit, comment: list[str]) -> Generator[Path]:
    """Write the text to a temporary file that only its owner can read.

    The file is deleted when the block ends.
    """
    with tempfile.TemporaryDirectory(prefix="midturn-") as folder:
        path = Path(folder, f"answer{wanted.suffix}")
        path.write_text("\n".join([wanted.text, "", *comment, ""]), encoding="utf-8")
        yield path


def _edited(path: Path, editor: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NoEdit(
            f"The file that {editor} saved cannot be read ({error}); the text is unchanged."
        ) from error


def _spawn(command: list[str], device: Device) -> int:
    """Start the editor as a separate job that uses the terminal's descriptor and default signal
    handling.
    """
    tty = [(os.POSIX_SPAWN_DUP2, device.fd, fd) for fd in (0, 1, 2)]
    try:
        return os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=tty,
            setpgroup=0,
            setsigdef=_DEFAULT_SIGNALS,
            setsigmask=[],
        )
    except OSError as error:
        raise NoEdit(f"{command[0]} cannot be run: {error.strerror}.") from error


async def _run(command: list[str], device: Device, restored: Restored) -> int:
    """Run the editor in the foreground.

    Return the exit status, or the negative number of the signal that killed the editor. If the task
    is cancelled, the editor is stopped.
    """
    child = _spawn(command, device)
    with _foreground(device, child):
        waiting = asyncio.get_running_loop().run_in_executor(None, _wait, child, device, restored)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await _end(child, waiting)
            raise


def _wait(child: int, device: Device, restored: Restored) -> int:
    """Wait for the editor. If Ctrl-Z stops the editor, also stop this process."""
    while True:
        try:
            _, status = os.waitpid(child, os.WUNTRACED)
        except ChildProcessError:
            return 0  # other code in this process already read the exit status, so it is unknown
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        if os.WSTOPSIG(status) == signal.SIGTSTP:
            _give_terminal(device, os.getpgrp())
            restored.suspend()
        _give_terminal(device, child)
        os.killpg(child, signal.SIGCONT)


async def _end(child: int, waiting: asyncio.Future[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child, number)
        done, _ = await asyncio.wait([waiting], timeout=_KILL_AFTER)
        if done:
            return


@contextmanager
def _foreground(device: Device, group: int) -> Generator[None]:
    """Make a process group the terminal's foreground job while the block runs.

    The group then receives Ctrl-C.
    """
    ours = os.getpgrp()
    _give_terminal(device, group)
    with suppress(ProcessLookupError):
        os.killpg(
            group, signal.SIGCONT
        )  # the editor is stopped if it uses the terminal before it is in the foreground
    try:
        yield
    finally:
        _give_terminal(device, ours)


def _give_terminal(device: Device, group: int) -> None:
    """Set the terminal's foreground group.

    A background job may do this only while SIGTTOU is blocked.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):  # the group or the terminal no longer exists
            os.tcsetpgrp(device.fd, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
