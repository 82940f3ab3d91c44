"""A whole prompt: what is printed once above, the faces that take keys, and the row that stays."""

from __future__ import annotations

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.core.reply import Answered, Edited, EndedTurn, Reply
from midturn.core.visible import exact
from midturn.prompts.answer_text import reply_text
from midturn.prompts.body import ROWS_SHOWN, more_rows, question_rows, subject_lines
from midturn.prompts.cells import cells, clip, hang
from midturn.prompts.command import Command, Step, commands
from midturn.prompts.content import about, asked_by, quoted_label, split_lines
from midturn.prompts.plain.dialog import Edit
from midturn.prompts.rich.face import Face, Outcome, Sign
from midturn.prompts.rich.faces import cancel_menu, first_face, other_field, reason_field, reply_field, subject_field, text_menu
from midturn.prompts.rich.field import Field
from midturn.prompts.rich.filtering import Filtering
from midturn.prompts.rich.key import Key, Press
from midturn.prompts.rich.markup import json_spans, markdown_lines
from midturn.prompts.rich.pager import Pager
from midturn.prompts.rich.screen import Frame, Row, Size, Span, clipped, cut, fitted, joined, row, wrapped
from midturn.prompts.rich.secret import SecretField
from midturn.prompts.rich.settle import Settle

GUTTER = Span("│ ", "gutter")

_TOO_SOON = "that key came too soon and was not taken: press it again"


class RichPrompt:
    """One prompt; keys go in with the time at which they were pressed, frames come out."""

    def __init__(self, prompt: Prompt, columns: int, settle: Settle, *, menu_first: bool = False) -> None:
        self._prompt = prompt
        self._settle = settle
        self._body = body(prompt, columns)
        self._rest = self._body[ROWS_SHOWN:]
        self._viewed = not self._rest
        self._offered = commands(prompt, len(self._rest))
        *self._question, self._tail = question_rows(prompt, columns)
        self._columns = columns
        self._note = ""
        self._faces: list[Face] = [first_face(prompt, self._tail, self._offered)]
        if menu_first and isinstance(prompt.question.answer_type, TextType | SchemaType | SecretType):
            self._faces.append(self._menu())

    def static(self) -> tuple[Row, ...]:
        """Return what is printed once: who asks, the context, what was wrong with the last reply, all of the question but its last row."""
        prompt = self._prompt
        progress = f" [{prompt.index}/{prompt.total}]" if prompt.total > 1 else ""
        header = (Span(asked_by(prompt), "header"), Span(quoted_label(prompt), "quoted"), Span(progress, "header"))
        more = [row(text, "error") for text in more_rows("…", len(self._rest), self._view_keys(), self._columns)]
        shown = self._body[:ROWS_SHOWN] if self._rest else self._body
        question = [row(part) for text in self._question for part in hang(text, self._columns, "  ")]
        return joined([clipped(header, self._columns)], shown, more, self._error(), question)

    def refit(self, columns: int) -> None:
        """Lay out anew what is printed above, for a window of another width: no row may go on at its edge without the gutter."""
        self._columns = columns
        self._body = body(self._prompt, columns)
        self._rest = self._body[ROWS_SHOWN:] if self._rest else []
        self._viewed = self._viewed or not self._rest

    @property
    def about(self) -> str:
        """Say in one line who asks what."""
        return about(self._prompt)

    def press(self, key: Key, now: float) -> Reply | Edit | Sign | None:
        """Take a key: what comes back is the reply, or something that only the terminal can do."""
        self._note = ""
        face = self._faces[-1]
        if isinstance(key, Press) and key.key == "c-c":
            return EndedTurn()
        if not self._settle.hears(now) and _may_answer(face, key):
            self._note = _TOO_SOON
            return None
        if isinstance(key, Press) and key.key == "c-d" and face.empty:
            return EndedTurn()
        if isinstance(key, Press) and key.key == "c-z":
            return Sign.SUSPEND
        return self._do(face.press(key))

    def edited(self, text: str) -> None:
        """Take back what the editor wrote."""
        if isinstance(face := self._faces[-1], Field):
            face.edited(text)

    def say(self, message: str) -> None:
        """Show something below the live rows until the next key."""
        self._note = exact(message)

    def frame(self, size: Size) -> Frame:
        """Draw the live rows into the room there is."""
        notes = [row(text, "error") for text in hang(self._note, size.columns, "  ")] if self._note else []
        room = Size(size.columns, max(1, size.rows - len(notes)))
        frame = self._faces[-1].frame(room)
        return fitted(Frame(joined(frame.rows, notes), frame.cursor), size)

    def transcript(self, reply: Reply, columns: int) -> Row:
        """Return the row that stays: the question's last row and what was answered."""
        approved = isinstance(reply, Edited) or (isinstance(reply, Answered) and reply.value is True)
        unseen = f" ({len(self._rest)} rows were not viewed)" if approved and not self._viewed else ""
        return transcript_row(self._tail, f"{reply_text(self._prompt, reply)}{unseen}", columns)

    def _do(self, outcome: Outcome) -> Reply | Edit | Sign | None:
        match outcome:
            case Command(does=Step() as step):
                return self._step(step)
            case Command(does=reply):
                return reply if not isinstance(reply, Step) else None
            case Sign.MENU:
                self._faces.append(self._menu())
            case Sign.LEAVE | Sign.SEEN:
                self._viewed = self._viewed or outcome is Sign.SEEN
                self._faces.pop()
            case _:
                return outcome
        return None

    def _step(self, step: Step) -> None:
        """Open what a key opens; a menu closes with it."""
        opened = self._opened(step)
        if len(self._faces) > 1:
            self._faces.pop()
        if opened is not None:
            self._faces.append(opened)

    def _opened(self, step: Step) -> Face | None:  # noqa: PLR0911 (one for each step)
        """Return the face that a command opens."""
        match step:
            case Step.REPLY:
                return reply_field()
            case Step.GIVE_REASON:
                return reason_field()
            case Step.OTHER:
                return other_field(self._prompt, self._faces[0])
            case Step.EDIT:
                return subject_field(self._prompt)
            case Step.VIEW:
                return Pager(self._body, ROWS_SHOWN)
            case Step.PRINT:
                return Pager(self._body)
            case Step.HELP | Step.ANSWER:
                return None

    def _menu(self) -> Face:
        if isinstance(self._prompt.question.answer_type, SelectType | MultiSelectType):
            return cancel_menu(self._offered)
        return text_menu(self._tail, self._offered)

    def _view_keys(self) -> str:
        """Name what shows the rest: where letters are typed, `v` stands in the menu."""
        return "Esc v" if isinstance(self._faces[0], Field | Filtering | SecretField) else "v"

    def _error(self) -> list[Row]:
        if self._prompt.error is None:
            return []
        first, *more = split_lines(self._prompt.error)
        lines = [f"! {exact(first)}", *(f"  {exact(line)}" for line in more)]
        return [row(text, "error") for line in lines for text in hang(line, self._columns, "  ")]


def _may_answer(face: Face, key: Key) -> bool:
    """Tell whether a key could be an answer: every key but those that only write text."""
    return face.submits is None or (isinstance(key, Press) and key.key in face.submits)


def body(prompt: Prompt, columns: int) -> list[Row]:
    """Return context and subject behind the gutter."""
    room = max(1, columns - cells(GUTTER.text))
    context = [
        found for line in markdown_lines(prompt.question.context or "") for found in (cut if line.kept else wrapped)(line.spans, room)
    ]
    colour = json_spans if prompt.kind == "run" else row
    exactly = [found for line in subject_lines(prompt) for found in cut(colour(line), room)]
    between: list[Row] = [()] if context and exactly else []
    return [(GUTTER, *spans) for spans in (*context, *between, *exactly)]


def transcript_row(question: str, answer: str, columns: int) -> Row:
    """Put question and answer into one row; where both are long, each gets half."""
    room = max(1, columns - 1)
    width = max(min(cells(question), room - 1 - cells(answer)), (room - 1) // 2)
    asked = clip(question, width)
    return (Span(f"{asked} "), Span(clip(answer, max(1, room - 1 - cells(asked))), "strong"))
