"""The user's next line: typed with history and completion where the terminal draws, line by line elsewhere."""

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
from prompt_toolkit.layout.processors import Processor, TabsProcessor, Transformation, TransformationInput
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


_FAREWELL = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l"
_ASK = "> "

Offers: TypeAlias = "Callable[[Sequence[str]], Sequence[CompletionItem]]"
"""Completions of a line that begins with a command."""


class ChatLine(Protocol):
    """Source of the person's words. `keys` says in a sentence how they are typed."""

    keys: str

    @property
    def ahead(self) -> TypedAhead | None:
        """What shows and edits what is typed while a turn runs; None where nothing is drawn."""
        ...

    def keep(self, said: str) -> None:
        """Keep in the history what is sent without being read here."""
        ...

    def read(self, draft: str = "") -> str:
        """Return what is said next; `draft` was typed already, and may still be changed.

        Raises:
            KeyboardInterrupt: Ctrl-C: what was typed is dropped.
            EOFError: Ctrl-D: the person leaves.
            TerminalGone: The terminal is closed.
        """
        ...


class History(FileHistory):
    """What was said in a workspace, pastes whole."""

    def __init__(self, file: Path, folds: Folds) -> None:
        super().__init__(str(file))
        self._folds = folds

    def append_string(self, string: str) -> None:
        """Keep what was said."""
        super().append_string(self._folds.unfold(string))


def line_here(setting: Mode, root: Path, commands: Mapping[str, str], offers: Offers) -> ChatLine:
    """Return the line of this terminal; what is said is kept for the workspace at `root`, where only its owner reads it.

    `commands` says of each what it does, and `offers` what may follow its words.
    """
    folds = Folds()
    history = History(history_file(root), folds)
    return PlainLine(history) if choose_mode(setting, os.environ) == "plain" else RichLine(history, commands, offers, folds)


def history_file(root: Path) -> Path:
    """Return the file that keeps what was said in a workspace; made, with its folder, for its owner alone."""
    folder = state_directory() / "history"
    ensure_private(folder)
    file = folder / hashlib.sha256(str(root.resolve()).encode(errors="surrogateescape")).hexdigest()[:16]
    os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    return file


class PlainLine:
    """Lines as the terminal edits them itself."""

    keys = "Enter sends; end a line with \\ to go on in the next."
    ahead = None

    def __init__(self, history: FileHistory) -> None:
        self._history = history

    def keep(self, said: str) -> None:
        """Keep what is sent."""
        self._history.store_string(said)

    def read(self, draft: str = "") -> str:
        """Return the next line; several, where several were pasted or a line says that it goes on. Enter alone sends the `draft`."""
        with open_device() as device, Restored(device) as restored:
            try:
                if draft:
                    device.write(line("Not sent yet (Enter sends it): {}", draft) + "\n")
                said = asyncio.run(_whole(LineReader(device, restored, settle=0))) or draft
            except InputEnded as end:
                device.write("\n")
                raise EOFError from end
            except LineInterrupted as interrupt:
                device.write("\n")
                raise KeyboardInterrupt from interrupt
        if said.strip():
            self._history.store_string(said)
        return said


async def _whole(reader: LineReader) -> str:
    """Read on for as long as a line ends in a backslash."""
    lines = [await reader.read_line(_ASK)]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1].removesuffix("\\")
        lines.append(await reader.read_line(_ASK))
    return "\n".join(lines)


class RichLine:
    """A line with history (arrows, Ctrl-R), several rows (Alt-Enter, Ctrl-J), and completion (Tab)."""

    keys = "Enter sends, Alt-Enter begins a new line, Tab completes, the arrows and Ctrl-R find what you said before."

    def __init__(self, history: History, commands: Mapping[str, str], offers: Offers, folds: Folds) -> None:
        self._history = history
        self._folds = folds
        self.ahead = TypedAhead(folds)
        self._rows_of_menu = len(commands) + 1
        self._completer = LineCompleter(commands, offers)
        self._session: PromptSession[str] | None = None

    def keep(self, said: str) -> None:
        """Keep what is sent."""
        self._history.append_string(said)

    def read(self, draft: str = "") -> str:
        """Return what is typed until Enter; the `draft` stands there already."""
        self._folds.forget()
        with open_device() as device, Restored(device, _FAREWELL) as restored:
            keyboard = io.TextIOWrapper(io.FileIO(device.fd, "r", closefd=False), encoding="utf-8")
            session = self._on(LineKeys(keyboard, restored), Canvas(device).output)
            try:
                return self._folds.unfold(session.prompt(POINTER if device.unicode else _ASK, default=self._folds.fold(draft)))
            except EOFError:
                device.check()
                raise
            finally:
                keyboard.detach()

    def _on(self, keys: LineKeys, output: Output) -> PromptSession[str]:
        """Return the editor on a terminal. All lines have the same one: prompt_toolkit keeps something of each for ever."""
        if self._session is None:
            self._session = PromptSession(
                history=self._history,
                completer=self._completer,
                complete_while_typing=False,
                reserve_space_for_menu=self._rows_of_menu,
                key_bindings=_keys(self._folds),
                prompt_continuation=" " * len(POINTER),
                input_processors=[FoldedPastes(self._folds), TabsProcessor(tabstop=TAB_STOP, char1=TAB, char2=" ")],
                input=keys,
                output=output,
                enable_suspend=True,
            )
        app = self._session.app
        app.input = keys
        app.output = app.renderer.output = output
        return self._session


class LineKeys(Vt100Input):
    """The keys of one line. What was typed before it stands in it, and what is typed behind its Enter is for the next one."""

    def __init__(self, stdin: io.TextIOWrapper, restored: Restored, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stdin)
        self._restored = restored
        self._speed = TypingSpeed()
        self._clock = clock

    def read_keys(self) -> list[KeyPress]:
        """Read keys. An Enter in a paste that the terminal does not mark begins a new line; one at its end does nothing."""
        keys = super().read_keys()
        typed = [key for key in keys if len(key.key) == 1 or key.key in _LINE_ENDS]
        if not typed or not self._speed.is_paste(len(typed), self._clock()):
            return keys
        whole = [key for at, key in enumerate(keys) if not (key.key is Keys.ControlJ and at and keys[at - 1].key is Keys.ControlM)]
        if whole[-1].key in _LINE_ENDS:
            whole.pop()
        return [KeyPress(Keys.ControlJ, "\n") if key.key is Keys.ControlM else key for key in whole]

    @contextmanager
    def raw_mode(self) -> Generator[None]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # any context manager
        """Let every key arrive at once, also after the job was stopped; the caller restores."""
        self._restored.set(key_mode(self._restored.found))
        yield

    def typeahead_hash(self) -> str:
        """Name the input: each line has another, on a descriptor that may have another number."""
        return "midturn-chat"


_LINE_ENDS = frozenset({Keys.ControlM, Keys.ControlJ})


class LineCompleter(Completer):
    """Completes `/` commands at the beginning of a line and what may follow them, and paths everywhere else."""

    def __init__(self, commands: Mapping[str, str], offers: Offers) -> None:
        self._commands = commands
        self._offers = offers
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what the word at the cursor may become."""
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and before.count("/") == 1:
            begun = ((name, what) for name, what in self._commands.items() if name.startswith(before))
            yield from (Completion(name, -len(before), display_meta=what) for name, what in begun)
            return
        word = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
        words = before.removesuffix(word).split()
        if words and words[0] in self._commands:
            offered = (one for one in self._offers(words) if str(one.value).startswith(word))
            yield from (Completion(str(one.value), -len(word), display_meta=one.help or "") for one in offered)
            return
        yield from self._paths.get_completions(Document(word), complete_event)


class FoldedPastes(Processor):
    """Shows `[200 lines]` for a paste that is folded."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Replace the sign of each paste."""
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
        event.current_buffer.insert_text(folds.fold(event.data.replace("\r\n", "\n").replace("\r", "\n")))

    @bindings.add("escape", "enter")
    @bindings.add("c-j")  # Enter, too, where it was pressed before the line was there: it sends nothing
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.insert_text("\n")

    return bindings


def is_there() -> bool:
    """Tell whether a person types at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


# ----------------------------------------------------------------------------------------------------------------------
# Completions of `/` commands: models, tools, keys of the configuration and their values


def offers(words: Sequence[str]) -> Sequence[CompletionItem]:
    """Return what may follow `words`, the first of which is a command; where nothing can be found out, nothing is offered."""
    try:
        return [item(value, meaning) for value, meaning in _known(words)]
    except (MidturnError, OSError):
        return []


def _known(words: Sequence[str]) -> Sequence[tuple[str, str]]:
    offered: Sequence[tuple[str, str]] = ()
    match list(words):
        case ["/model"]:
            offered = known("models")
        case ["/tools"]:
            offered = known("tools")
        case ["/inbox"]:
            offered = [("--all", "of all workspaces")]
        case ["/show"]:
            offered = [("--inquiries", "who answered what, and why"), ("--usage", "tokens, turn by turn")]
        case ["/config"]:
            offered = [(word, "") for word in ("show", "get", "set", "explain")]
        case ["/config", "get" | "set" | "explain"]:
            offered = known("keys")
        case ["/config", "set", key]:
            offered = known("values", key)
        case _:
            pass
    return offered
