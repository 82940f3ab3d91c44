"""The person's own editor, on the terminal's own descriptor and as its foreground job."""

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
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE)


class NoEdit(Exception):  # noqa: N818 (it says what the result is)
    """There is no editor, or it failed; the message says which, and the text stays as it was."""


async def edit(wanted: Edit, about: str, device: Device, restored: Restored) -> str:
    """Let the person edit a text and return it, without the comment that says what it is `about` and the line end that editors add.

    Raises:
        NoEdit: No editor was found, or it ended with an error.
        TerminalGone: The terminal was closed meanwhile: what the editor wrote then was not submitted.
    """
    command = editor_command(os.environ)
    comment = comment_lines(wanted, about)
    with _draft(wanted, comment) as path:
        restored.restore()
        status = await _run([*command, str(path)], device, restored)
        device.check()
        if status != 0:
            raise NoEdit(f"{command[0]} ended with status {status}; the text is unchanged.")
        return without_comment(_edited(path, command[0]), comment)


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the words of `$VISUAL`, else `$EDITOR`, else a usual editor.

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
    """Return the lines that say below the text what it is about; `//` begins them in JSON, `#` elsewhere."""
    sign = "//" if wanted.suffix == ".json" else "#"
    return [f"{sign} {about}", f"{sign} These two lines are taken out again."]


def without_comment(written: str, comment: list[str]) -> str:
    """Take the comment out, wherever it stands now, and the empty row that was put before it; other lines are the person's own."""
    lines = written.split("\n")
    places = [place for place, line in enumerate(lines) if line.rstrip() in comment]
    if places and places[0] > 0 and not lines[places[0] - 1].strip():
        places.append(places[0] - 1)
    return "\n".join(line for place, line in enumerate(lines) if place not in places).removesuffix("\n")


@contextmanager
def _draft(wanted: Edit, comment: list[str]) -> Generator[Path]:
    """Keep the text in a file that only its owner can read, while the block runs."""
    with tempfile.TemporaryDirectory(prefix="midturn-") as folder:
        path = Path(folder, f"answer{wanted.suffix}")
        path.write_text("\n".join([wanted.text, "", *comment, ""]), encoding="utf-8")
        yield path


def _edited(path: Path, editor: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NoEdit(f"What {editor} wrote cannot be read ({error}); the text is unchanged.") from error


def _spawn(command: list[str], device: Device) -> int:
    """Start the editor as a job of its own, on the terminal's descriptor and with no signal ignored or blocked."""
    tty = [(os.POSIX_SPAWN_DUP2, device.fd, fd) for fd in (0, 1, 2)]
    try:
        return os.posix_spawnp(command[0], command, os.environ, file_actions=tty, setpgroup=0, setsigdef=_DEFAULT_SIGNALS, setsigmask=[])
    except OSError as error:
        raise NoEdit(f"{command[0]} cannot be run: {error.strerror}.") from error


async def _run(command: list[str], device: Device, restored: Restored) -> int:
    """Run the editor in the foreground; cancelling ends it. Returns its exit status, or minus the signal that ended it."""
    child = _spawn(command, device)
    with _foreground(device, child):
        waiting = asyncio.get_running_loop().run_in_executor(None, _wait, child, device, restored)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await _end(child, waiting)
            raise


def _wait(child: int, device: Device, restored: Restored) -> int:
    """Wait for the editor; when it is stopped with Ctrl-Z, stop with it."""
    while True:
        try:
            _, status = os.waitpid(child, os.WUNTRACED)
        except ChildProcessError:
            return 0  # other code in this process collected it: what it wrote is all that is known
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
    """Make a process group the terminal's foreground job while the block runs, so that its Ctrl-C is its own."""
    ours = os.getpgrp()
    _give_terminal(device, group)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGCONT)  # it may have been stopped for touching the terminal before it was given it
    try:
        yield
    finally:
        _give_terminal(device, ours)


def _give_terminal(device: Device, group: int) -> None:
    """Change the foreground group; a job in the background may do so only while the signal that would stop it is blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):  # the group is gone, or the terminal is
            os.tcsetpgrp(device.fd, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
