"""Read the user's next message in a chat: with history and completion, or line by line on simple
terminals.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import (
    Processor,
    TabsProcessor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import Output

from midturn.cli.completing import item, known
from midturn.cli.output import line
from midturn.config.places import state_directory
from midturn.errors import MidturnError
from midturn.security.private_files import ensure_private
from midturn.terminal.attributes import key_mode
from midturn.terminal.capabilities import choose_mode
from midturn.terminal.device import Restored, open_device
from midturn.terminal.lines import InputEnded, LineInterrupted, LineReader
from midturn.terminal.live import Canvas
from midturn.terminal.prompts.keys import TAB, TAB_STOP
from midturn.terminal.prompts.rich.burst import TypingSpeed
from midturn.terminal.prompts.rich.screen import POINTER
from midturn.terminal.prompts.settings import Mode
from midturn.terminal.typed_ahead import Folds, TypedAhead

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_RESET = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l"
_PROMPT = "> "

CompleteCommand: TypeAlias = "Callable[[Sequence[str]], Sequence[CompletionItem]]"
"""Returns completions for the next word of a line that starts with a command."""


class ChatLine(Protocol):
    """Source of the user's messages. `keys` tells the user which keys can be used."""

    keys: str

    @property
    def ahead(self) -> TypedAhead | None:
        """The editor for text typed while a turn runs, or None on simple terminals."""
        ...

    def keep(self, said: str) -> None:
        """Add a message that was not typed at this prompt to the history."""
        ...

    def read(self, draft: str = "") -> str:
        """Return the next message. `draft` is text that was typed earlier and can still be edited.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. The text is discarded.
            EOFError: Ctrl-D was pressed to leave the chat.
            TerminalGone: The terminal was closed.
        """
        ...


class MessageHistory(FileHistory):
    """History of the messages sent in a workspace. Pastes are stored in full."""

    def __init__(self, file: Path, folds: Folds) -> None:
        super().__init__(str(file))
        self._folds = folds

    def append_string(self, string: str) -> None:
        """Add a message."""
        super().append_string(self._folds.unfold(string))


def line_here(
    setting: Mode, root: Path, commands: Mapping[str, str], offers: CompleteCommand
) -> ChatLine:
    """Return the message reader for this terminal.

    The history of the workspace at `root` is stored in a file that only its owner can read.
    `commands` maps commands to their descriptions, and `offers` completes their arguments.
    """
    folds = Folds()
    history = MessageHistory(history_file(root), folds)
    return (
        PlainLine(history)
        if choose_mode(setting, os.environ) == "plain"
        else RichLine(history, commands, offers, folds)
    )


def history_file(root: Path) -> Path:
    """Return the history file of a workspace. If it is created, only its owner can read it."""
    folder = state_directory() / "history"
    ensure_private(folder)
    file = (
        folder
        / hashlib.sha256(str(root.resolve()).encode(errors="surrogateescape")).hexdigest()[:16]
    )
    os.close(
        os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    )
    return file


class PlainLine:
    """Reads lines in the terminal's own line mode."""

    keys = "Enter sends; end a line with \\ to continue on the next line."
    ahead = None

    def __init__(self, history: FileHistory) -> None:
        self._history = history

    def keep(self, said: str) -> None:
        """Add a message to the history."""
        self._history.store_string(said)

    def read(self, draft: str = "") -> str:
        """Return the next message.

        Pasted lines and lines that end in a backslash are joined. An empty line sends the `draft`.
        """
        with open_device() as device, Restored(device) as restored:
            try:
                if draft:
                    device.write(line("Not sent yet (Enter sends it): {}", draft) + "\n")
                text = asyncio.run(_read_message(LineReader(device, restored, settle=0))) or draft
            except InputEnded as end:
                device.write("\n")
                raise EOFError from end
            except LineInterrupted as interrupt:
                device.write("\n")
                raise KeyboardInterrupt from interrupt
        if text.strip():
            self._history.store_string(text)
        return text


async def _read_message(reader: LineReader) -> str:
    """Read lines until a line does not end in a backslash."""
    lines = [await reader.read_line(_PROMPT)]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1].removesuffix("\\")
        lines.append(await reader.read_line(_PROMPT))
    return "\n".join(lines)


class RichLine:
    """Reads a message with history (arrow keys, Ctrl-R), several lines (Alt-Enter, Ctrl-J) and
    completion (Tab).
    """

    keys = (
        "Enter sends, Alt-Enter starts a new line, Tab completes, arrow keys and Ctrl-R search"
        " earlier messages."
    )

    def __init__(
        self,
        history: MessageHistory,
        commands: Mapping[str, str],
        offers: CompleteCommand,
        folds: Folds,
    ) -> None:
        self._history = history
        self._folds = folds
        self.ahead = TypedAhead(folds)
        self._menu_height = len(commands) + 1
        self._completer = LineCompleter(commands, offers)
        self._session: PromptSession[str] | None = None

    def keep(self, said: str) -> None:
        """Add a message to the history."""
        self._history.append_string(said)

    def read(self, draft: str = "") -> str:
        """Let the user edit the `draft`, and return the text when Enter is pressed."""
        self._folds.forget()
        with open_device() as device, Restored(device, _RESET) as restored:
            keyboard = io.TextIOWrapper(io.FileIO(device.fd, "r", closefd=False), encoding="utf-8")
            session = self._session_for(LineKeys(keyboard, restored), Canvas(device).output)
            try:
                return self._folds.unfold(
                    session.prompt(
                        POINTER if device.unicode else _PROMPT, default=self._folds.fold(draft)
                    )
                )
            except EOFError:
                device.check()
                raise
            finally:
                keyboard.detach()

    def _session_for(self, keys: LineKeys, output: Output) -> PromptSession[str]:
        """Return the editor for a terminal.

        The same editor is reused for all lines, because prompt_toolkit leaks memory with each new
        one.
        """
        if self._session is None:
            self._session = PromptSession(
                history=self._history,
                completer=self._completer,
                complete_while_typing=False,
                reserve_space_for_menu=self._menu_height,
                key_bindings=_keys(self._folds),
                prompt_continuation=" " * len(POINTER),
                input_processors=[
                    FoldedPastes(self._folds),
                    TabsProcessor(tabstop=TAB_STOP, char1=TAB, char2=" "),
                ],
                input=keys,
                output=output,
                enable_suspend=True,
            )
        app = self._session.app
        app.input = keys
        app.output = app.renderer.output = output
        return self._session


class LineKeys(Vt100Input):
    """Keyboard input for one message.

    Keys typed before the prompt are part of the message. Keys typed after Enter are for the next
    message.
    """

    def __init__(
        self,
        stdin: io.TextIOWrapper,
        restored: Restored,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stdin)
        self._restored = restored
        self._speed = TypingSpeed()
        self._clock = clock

    def read_keys(self) -> list[KeyPress]:
        """Read keys.

        In an unmarked paste, Enter starts a new line, and a final Enter is dropped.
        """
        keys = super().read_keys()
        typed = [key for key in keys if len(key.key) == 1 or key.key in _LINE_ENDS]
        if not typed or not self._speed.is_paste(len(typed), self._clock()):
            return keys
        whole = [
            key
            for at, key in enumerate(keys)
            if not (key.key is Keys.ControlJ and at and keys[at - 1].key is Keys.ControlM)
        ]
        if whole[-1].key in _LINE_ENDS:
            whole.pop()
        return [KeyPress(Keys.ControlJ, "\n") if key.key is Keys.ControlM else key for key in whole]

    @contextmanager
    def raw_mode(self) -> Generator[None]:
        """Switch the terminal to raw mode, at the start and after the job was stopped.

        The caller restores the mode.
        """
        self._restored.set(key_mode(self._restored.found))
        yield

    def typeahead_hash(self) -> str:
        """Return a constant, so that prompt_toolkit keeps keys typed ahead for the next message.

        Each message has a new input object, possibly with another descriptor.
        """
        return "midturn-chat"


_LINE_ENDS = frozenset({Keys.ControlM, Keys.ControlJ})


class LineCompleter(Completer):
    """Completes `/` commands and their arguments at the start of a line, and paths elsewhere."""

    def __init__(self, commands: Mapping[str, str], offers: CompleteCommand) -> None:
        self._commands = commands
        self._offers = offers
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield completions of the word at the cursor."""
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and before.count("/") == 1:
            matching = (
                (name, description)
                for name, description in self._commands.items()
                if name.startswith(before)
            )
            yield from (
                Completion(name, -len(before), display_meta=description)
                for name, description in matching
            )
            return
        word = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
        words = before.removesuffix(word).split()
        if words and words[0] in self._commands:
            offered = (found for found in self._offers(words) if str(found.value).startswith(word))
            yield from (
                Completion(str(found.value), -len(word), display_meta=found.help or "")
                for found in offered
            )
            return
        yield from self._paths.get_completions(Document(word), complete_event)


class FoldedPastes(Processor):
    """Displays `[200 lines]` for a folded paste."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Replace the placeholder of each paste."""
        shown: StyleAndTextTuples = []
        starts = [0]
        for style, char, *_ in explode_text_fragments(transformation_input.fragments):
            folded = self._folds.shown(char)
            shown.append((f"{style} bold" if folded else style, folded or char))
            starts.append(starts[-1] + len(folded or char))

        def to_shown(at: int) -> int:
            return starts[at] if at < len(starts) else starts[-1] + at - len(starts) + 1

        def to_typed(at: int) -> int:
            return max(0, bisect_right(starts, at) - 1)

        return Transformation(shown, to_shown, to_typed)


def _keys(folds: Folds) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(
            folds.fold(event.data.replace("\r\n", "\n").replace("\r", "\n"))
        )

    @bindings.add("escape", "enter")
    # an Enter that was pressed before the prompt was shown arrives as Ctrl-J; it must not send
    @bindings.add("c-j")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.insert_text("\n")

    return bindings


def is_there() -> bool:
    """Return whether stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


# --------------------------------------------------------------------------------------------------
# Completion of `/` commands


def offers(words: Sequence[str]) -> Sequence[CompletionItem]:
    """Return completions for the word after `words`, which start with a command.

    Return nothing if an error occurs.
    """
    try:
        return [item(value, meaning) for value, meaning in _candidates(words)]
    except (MidturnError, OSError):
        return []


def _candidates(words: Sequence[str]) -> Sequence[tuple[str, str]]:
    offered: Sequence[tuple[str, str]] = ()
    match list(words):
        case ["/model"]:
            offered = known("models")
        case ["/tools"]:
            offered = known("tools")
        case ["/inbox"]:
            offered = [("--all", "all workspaces")]
        case ["/show"]:
            offered = [
                ("--inquiries", "questions, answers and who answered"),
                ("--usage", "token usage by turn"),
            ]
        case ["/config"]:
            offered = [(word, "") for word in ("show", "get", "set", "explain")]
        case ["/config", "get" | "set" | "explain"]:
            offered = known("keys")
        case ["/config", "set", key]:
            offered = known("values", key)
        case _:
            pass
    return offered
