"""A rich prompt: rows that are printed once above the question, views that receive keys, and the
transcript row that remains.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from midturn.events.prompt import CallSubject, FormSubject, Prompt
from midturn.question.answer_type import (
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectType,
    TextType,
)
from midturn.question.json_value import Json, SecretValue
from midturn.question.reply import Answered, Deferred, Edited, EndedTurn, Reply
from midturn.question.text import exact
from midturn.terminal.prompts.answer_text import covered_text, native, reply_text
from midturn.terminal.prompts.body import (
    CREATES_FILES,
    QUOTE,
    change_of_call,
    exact_lines,
    more_rows,
    own_context,
    preview_rows,
    question_rows,
    rows_shown,
    subject_lines,
    verdict_lines,
)
from midturn.terminal.prompts.cells import cells, clip, continued_words, hang
from midturn.terminal.prompts.changes import FileChange
from midturn.terminal.prompts.keys import (
    LEAVES_FORM,
    AsJson,
    Command,
    KeyStep,
    about,
    asked_by,
    commands,
    exit_reply,
    first_other,
    loses_answers,
    quoted_label,
    split_lines,
)
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.burst import NOT_SUBMITTED, KeyMode
from midturn.terminal.prompts.rich.choice import ChoiceView, Help
from midturn.terminal.prompts.rich.field import SecretField, TextField
from midturn.terminal.prompts.rich.filtering import Filtering
from midturn.terminal.prompts.rich.keyboard import Key, Paste, Press
from midturn.terminal.prompts.rich.listing import Listing, OptionList
from midturn.terminal.prompts.rich.pager import (
    ContextLine,
    ContextRows,
    Pager,
    argument_spans,
    change_lines,
    diff_spans,
    plain_context,
)
from midturn.terminal.prompts.rich.screen import (
    Frame,
    Opened,
    Pressed,
    PromptView,
    Row,
    Sign,
    Size,
    Span,
    clipped,
    cut,
    fitted,
    joined,
    row,
    row_text,
)
from midturn.terminal.prompts.rich.views import (
    cancel_menu,
    field_help,
    first_view,
    other_field,
    reason_field,
    reply_field,
    rule_field,
    subject_field,
    text_menu,
)

GUTTER = Span("│ ", "gutter")

_KEY_TOO_SOON = "that key came too soon and was ignored: press it again"
_SIGNS = {"c-z": Sign.SUSPEND, "c-l": Sign.REDRAW}
_LEAVES_TEXT = (
    "press Esc again to leave the question open and discard what you typed, any other key to"
    " continue"
)
_ENDS = "press s again to end the turn, any other key to continue"


class Debounce:
    """Ignores keys until none was pressed for `quiet` seconds.

    Earlier keys were meant for another program or question. After the pause, every key is accepted.
    Times are in seconds and come from the caller's clock.
    """

    def __init__(self, quiet: float, now: float) -> None:
        self._quiet = quiet
        self._last = now
        self._armed = False

    def accepts(self, now: float) -> bool:
        """Return whether a key pressed at `now` is accepted."""
        self._armed = self._armed or now - self._last >= self._quiet
        self._last = now
        return self._armed


class RichScene:
    """One rich prompt. The caller passes each key with the time when it was pressed, and draws the
    frames.

    Args:
        prompt: The prompt to display.
        columns: Width of the terminal in cells.
        settle: Rejects keys that are pressed too soon.
        height: Height of the terminal in rows; 0 prints the whole context.
        menu_first: Whether the menu is open at the start, for text questions.
        context: Lays out the rows above the question.
    """

    def __init__(
        self,
        prompt: Prompt,
        columns: int,
        settle: Debounce,
        *,
        height: int = 0,
        menu_first: bool = False,
        context: ContextRows = plain_context,
    ) -> None:
        self._asked = prompt
        self._prompt = native(prompt)
        self._settle = settle
        self._context = context
        self._columns = columns
        self._body = body(self._prompt, columns, context)
        self._shown = self._seen = rows_shown(len(self._body), height)
        offered = commands(self._prompt, self._unseen)
        self._offered = (
            offered
            if self._prompt is prompt
            else tuple(one for one in offered if one.does is not KeyStep.GIVE_REASON)
        )
        *self._question, self._tail = question_rows(self._prompt, columns)
        self._note = ""
        self._leaving: Key | None = None
        self._writing = KeyStep.REPLY
        self._drafts: dict[KeyStep, str] = {}
        self._help = Help()
        self._helped: PromptView | None = None
        self._views: list[PromptView] = [first_view(self._prompt, self._tail, self._offered)]
        if menu_first and isinstance(
            self._prompt.question.answer_type, TextType | SchemaType | SecretType
        ):
            self._views.append(self._menu())

    def own_words(self, reply: Reply) -> str:
        """Return the free text in the reply, or else free text that was typed but not submitted."""
        typed = self._drafts.get(KeyStep.OTHER, "")
        if not isinstance(reply, Answered) or isinstance(reply.value, SecretValue):
            return typed
        return first_other(replace(self._asked, prefill=reply.value)) or typed

    def restore_own_words(self, words: str) -> None:
        """Restore free text that was typed earlier."""
        if words:
            self._drafts[KeyStep.OTHER] = words

    def static(self) -> tuple[Row, ...]:
        """Return the rows that are printed once: the asker, the context, the error of the last
        reply, and the question without its last row.
        """
        prompt = self._prompt
        progress = f" [{prompt.index}/{prompt.total}]" if prompt.total > 1 else ""
        optional = " (optional)" if prompt.question.optional else ""
        header = (
            GUTTER,
            Span(asked_by(prompt), "header"),
            Span(quoted_label(prompt), "quoted"),
            Span(progress, "header"),
            Span(optional, "dim"),
        )
        more = [
            row(text, "error")
            for text in more_rows("…", self._cut, self._view_keys(), self._columns)
        ]
        question = [
            row(part) for text in self._question for part in hang(text, self._columns, "  ")
        ]
        return joined(
            [clipped(header, self._columns)],
            self._body[: self._shown],
            more,
            self._error(),
            question,
        )

    def refit(self, columns: int, height: int = 0) -> None:
        """Lay out the printed rows again for a new window size."""
        all_seen = self._unseen == 0
        self._columns = columns
        self._body = body(self._prompt, columns, self._context)
        *self._question, self._tail = question_rows(self._prompt, columns)
        self._views[0].retitle(self._tail)
        self._shown = rows_shown(len(self._body), height)
        self._seen = len(self._body) if all_seen else self._shown

    def pager(self) -> Pager:
        """Return a pager with all rows above the question."""
        first = self._seen if self._unseen else 0
        return Pager(self._whole, first, exit_reply(self._prompt))

    def _whole(self, columns: int) -> list[Row]:
        """Return the body, then the previews of all options.

        If the body shows the arguments as a diff, the exact arguments follow.
        """
        rows = body(self._prompt, columns, self._context)
        previews = [row(text) for text in preview_rows(self._prompt, columns, GUTTER.text)]
        return [*rows, *([()] if rows and previews else []), *previews, *self._as_sent(columns)]

    def _as_sent(self, columns: int) -> list[Row]:
        """Return the exact arguments of a call if the body shows them as a diff."""
        subject = self._prompt.subject
        if not isinstance(subject, CallSubject) or change_of_call(subject.call) is None:
            return []
        heading = row("The arguments as they are sent:", "strong")
        lines = _kept_lines(map(argument_spans, exact_lines(subject.call)))
        room = max(1, columns - cells(GUTTER.text))
        return [
            (GUTTER, *spans)
            for spans in ((), heading, *(found for line in lines for found in line.rows(room)))
        ]

    def paged(self, pager: Pager) -> None:
        """Store how many rows the person has seen in the pager."""
        self._seen = (
            len(self._body)
            if pager.unseen == 0
            else max(self._seen, len(self._body) - pager.unseen)
        )

    @property
    def counts_down(self) -> bool:
        """Whether the prompt displays the time left for an answer."""
        return bool(self._prompt.deadline)

    @property
    def entry(self) -> KeyMode:
        """How keys are interpreted now."""
        return self._views[-1].entry

    @property
    def about(self) -> str:
        """The asker and the question on one line."""
        return about(self._prompt)

    def press(self, key: Key, now: float) -> Reply | Edit | Sign | None:  # noqa: PLR0911 (one for each thing that a key may do)
        """Handle a key. Return the reply, an action for the terminal, or None."""
        self._note = ""
        leaving, self._leaving = self._leaving, None
        view = self._views[-1]
        if isinstance(key, Press) and key.key == "c-c":
            return self._leave(key, sure=leaving is not None)
        if not self._settle.accepts(now) and _may_answer(view, key):
            self._note = _KEY_TOO_SOON
            return None
        if isinstance(key, Press) and key.key == "c-d" and view.empty:
            return self._leave(key, sure=leaving is not None)
        if isinstance(key, Press) and (sign := _SIGNS.get(key.key)):
            return sign
        if isinstance(key, Press) and self._is_for_help(view, key):
            return None
        if key == Press("escape") and self._escape_defers(view):
            return self._defer(key, sure=leaving == key)
        if leaving not in (
            None,
            key,
        ):  # any other key cancels the request for confirmation and does nothing else
            return None
        outcome = self._do(view.press(key))
        if (
            isinstance(key, Paste)
            and not key.marked
            and view.entry.writes
            and (not key.text or "\n" in key.text)
        ):
            self._note = NOT_SUBMITTED
        if isinstance(outcome, EndedTurn) and not leaving:
            self._leaving = key
            self._note = _ENDS
            return None
        return outcome

    def _is_for_help(self, view: PromptView, key: Press) -> bool:
        """Handle a key that shows, scrolls or hides the help below a field. Return whether it did
        so.

        The field keeps its text and receives all other keys. If Esc leaves the question open, F1
        opens the menu, because no other key opens it.
        """
        if isinstance(view, ChoiceView | Listing):
            return False
        if key.key == "f1" and self._prompt.exit_leaves_open:
            self._views.append(self._menu())
            return True
        if key.key == "f1":
            self._help = Help()
            self._help.toggle()
            self._helped = None if self._helped is view else view
            return True
        if self._helped is view and key.key == "escape":
            self._helped = None
            return True
        return (
            self._helped is view
            and key.key in ("pageup", "pagedown")
            and self._help.scrolls(key.key)
        )

    def _escape_defers(self, view: PromptView) -> bool:
        """Return whether Esc leaves the question open.

        It does so only in the first view, and only if there is no filter to clear.
        """
        return (
            self._prompt.exit_leaves_open
            and len(self._views) == 1
            and not (isinstance(view, Filtering) and view.words)
        )

    def _defer(self, key: Key, *, sure: bool) -> Deferred | None:
        """Leave the question open. If typed text would be lost, the key must be pressed twice."""
        view = self._views[-1]
        if sure or not (view.changed if isinstance(view, TextField) else not view.empty):
            return Deferred()
        self._leaving = key
        self._note = _LEAVES_TEXT
        return None

    def _leave(self, key: Key, *, sure: bool) -> Reply | None:
        """End the turn, or leave the question open.

        If the form's answers would be lost, the key must be pressed twice.
        """
        if sure or self._prompt.exit_leaves_open or not loses_answers(self._prompt):
            return exit_reply(self._prompt)
        self._leaving = key
        self._note = LEAVES_FORM
        return None

    def edited(self, text: str) -> None:
        """Replace the text of the field with the editor's text."""
        if isinstance(view := self._views[-1], TextField):
            view.edited(text)

    def say(self, message: str) -> None:
        """Show a message below the live rows until the next key."""
        self._note = exact(message)

    def frame(self, size: Size) -> Frame:
        """Draw the live rows. The question stays visible above a view that a key opened."""
        notes = (
            [row(text, "error") for text in hang(self._note, size.columns, "  ")]
            if self._note
            else []
        )
        notes += (
            [row(text, "dim") for text in hang(left, size.columns, "  ")]
            if (left := self._prompt.time_left())
            else []
        )
        above = self._rows_under_view(size)
        room = max(1, size.rows - len(notes) - len(above))
        helped = (
            self._help_below(Size(size.columns, room // 2))
            if self._helped is self._views[-1]
            else []
        )
        frame = self._views[-1].frame(Size(size.columns, max(1, room - len(helped))))
        at, column = frame.cursor
        return fitted(
            Frame(joined(above, frame.rows, helped, notes), (at + len(above), column)), size
        )

    def _help_below(self, size: Size) -> list[Row]:
        """Draw the help of a field in at most half of the rows."""
        return self._help.window(
            field_help(self._views[-1], self._prompt, self._offered, size),
            size.rows,
            "PgUp and PgDn scroll",
        )

    def transcript(self, reply: Reply, columns: int) -> Row:
        """Return the transcript row: the last row of the question, and the answer.

        If there is room, it also states how many rows were not displayed.
        """
        answer, unviewed = reply_text(self._prompt, reply), self._unviewed(reply)
        if not unviewed:
            return transcript_row(self._tail, answer, columns)
        whole = transcript_row(self._tail, f"{answer} {unviewed}", columns)
        return (
            whole
            if row_text(whole).endswith(unviewed)
            else transcript_row(self._tail, answer, columns)
        )

    def settled(self, reply: Reply, columns: int) -> list[Row]:
        """Return the transcript row and the rows below it.

        If the transcript row has no room for the number of rows that were not displayed, the number
        is on the next row. The scope of a remembered answer comes last.
        """
        whole, unviewed = self.transcript(reply, columns), self._unviewed(reply)
        said = not unviewed or row_text(whole).endswith(unviewed)
        texts = [*([] if said else [unviewed]), covered_text(self._prompt, reply)]
        return [
            whole,
            *(row(part, "dim") for text in texts if text for part in hang(text, columns, "  ")),
        ]

    def _unviewed(self, reply: Reply) -> str:
        """Return a note about how many rows of an approved subject were not displayed."""
        approved = isinstance(reply, Edited) or (
            isinstance(reply, Answered) and reply.value is True
        )
        return f"({self._unseen} rows were not viewed)" if approved and self._unseen else ""

    @property
    def _unseen(self) -> int:
        return max(0, len(self._body) - self._seen)

    @property
    def _cut(self) -> int:
        """Number of rows that were not printed above the question."""
        return len(self._body) - self._shown

    def _rows_under_view(self, size: Size) -> list[Row]:
        """Return the question's rows, dimmed, to display above an opened view.

        They take at most half of the screen.
        """
        if len(self._views) == 1:
            return []
        rows = self._views[0].kept(size)
        room = max(1, size.rows // 2)
        kept = rows if len(rows) <= room else [*rows[: room - 1], row("  …", "dim")]
        return [tuple(Span(span.text, "dim") for span in drawn) for drawn in kept]

    def _do(self, outcome: Pressed) -> Reply | Edit | Sign | None:
        match outcome:
            case Command(does=KeyStep() as step):
                return self._step(step)
            case Command(does=AsJson()):
                return AsJson(self._unsubmitted_input())
            case Command(does=reply):
                return reply if not isinstance(reply, KeyStep) else None
            case Opened(view):
                self._views.append(view)
            case Sign.MENU:
                self._views.append(self._menu())
            case Sign.LEAVE:
                left = self._views.pop()
                if isinstance(left, TextField) and len(self._views) == 1:
                    self._drafts[self._writing] = left.text
            case _:
                return outcome
        return None

    def _unsubmitted_input(self) -> Json:
        """Return the unsubmitted input of the field."""
        view = self._views[0]
        if isinstance(view, TextField):
            return view.text or None
        return (view.marked_values or None) if isinstance(view, OptionList) else None

    def _step(self, step: KeyStep) -> Sign | None:
        """Open the view for a step. It replaces an open menu."""
        if len(self._views) > 1:
            self._views.pop()
        if step is KeyStep.VIEW:
            return Sign.VIEW
        opened = self._opened(step)
        if opened is not None:
            self._views.append(opened)
            self._writing = step
            if isinstance(opened, TextField) and (draft := self._drafts.get(step)):
                opened.edited(draft)  # restore the text that was typed before Esc
        return None

    def _opened(self, step: KeyStep) -> PromptView | None:
        match step:
            case KeyStep.REPLY:
                return reply_field()
            case KeyStep.GIVE_REASON:
                return reason_field()
            case KeyStep.OTHER:
                return other_field(self._prompt, self._views[0])
            case KeyStep.EDIT:
                return subject_field(self._prompt)
            case KeyStep.RULE:
                return rule_field(self._prompt)
            case KeyStep.VIEW | KeyStep.HELP | KeyStep.ANSWER:
                return None

    def _menu(self) -> ChoiceView:
        if isinstance(self._prompt.question.answer_type, SelectType | MultiSelectType):
            return cancel_menu(self._offered, filters=isinstance(self._views[0], Filtering))
        return text_menu(self._offered, secret=isinstance(self._views[0], SecretField))

    def _view_keys(self) -> str:
        """Return the keys that show the remaining rows.

        In a text field, `v` is a letter, so the command is in the menu.
        """
        menu = "F1" if self._prompt.exit_leaves_open else "Esc"
        return (
            f"{menu} v" if isinstance(self._views[0], TextField | Filtering | SecretField) else "v"
        )

    def _error(self) -> list[Row]:
        if self._prompt.error is None:
            return []
        first, *more = split_lines(self._prompt.error)
        lines = [f"! {exact(first)}", *(f"  {exact(line)}" for line in more)]
        return [row(text, "error") for line in lines for text in hang(line, self._columns, "  ")]


def _may_answer(view: PromptView, key: Key) -> bool:
    """Return whether a key could submit an answer. Keys that only insert text cannot."""
    return view.submits is None or (isinstance(key, Press) and key.key in view.submits)


def body(prompt: Prompt, columns: int, context: ContextRows = plain_context) -> list[Row]:
    """Return the reviewer's verdict, the context and the subject, each row after the gutter."""
    room = max(1, columns - cells(GUTTER.text))
    quoted = [
        found
        for line in verdict_lines(prompt)
        for found in cut(row(line), max(1, room - cells(QUOTE)))
    ]
    said: list[Row] = [(Span(QUOTE, "quoted"), *found) for found in quoted]
    above = [*context(own_context(prompt), room)] if own_context(prompt) else []
    exactly = _subject_rows(prompt, room)
    parts = [part for part in (said, above, exactly) if part]
    rows = [
        found for number, part in enumerate(parts) for found in ([(), *part] if number else part)
    ]
    return [(GUTTER, *spans) for spans in rows]


def transcript_row(question: str, answer: str, columns: int) -> Row:
    """Return the question and the answer on one row. If both are long, each gets half of the row."""
    room = max(1, columns - 1)
    if cells(f"{question} {answer}") <= room:
        return (Span(f"{question} "), Span(answer, "strong"))
    width = max(min(cells(question), room - 1 - cells(answer)), (room - 1) // 2)
    asked = clip(question, width)
    return (Span(f"{asked} "), Span(clip(answer, max(1, room - 1 - cells(asked))), "strong"))


def _subject_rows(prompt: Prompt, room: int) -> list[Row]:
    """Return the rows of the subject.

    Answers of a form are wrapped at spaces, calls and results at any character.
    """
    if isinstance(prompt.subject, FormSubject):
        return [row(part) for line in subject_lines(prompt) for part in continued_words(line, room)]
    return [found for line in _subject(prompt) for found in line.rows(room)]


def _subject(prompt: Prompt) -> list[ContextLine]:
    """Return the subject with colours. File changes are shown as a diff, arguments by name."""
    lines = subject_lines(prompt)
    match prompt.subject:
        case CallSubject(call) if change := change_of_call(call):
            named = lines[: len(lines) - len(change.lines)]
            return [
                *_kept_lines(map(argument_spans, named)),
                *(line for file in change.files for line in _file(file)),
            ]
        case CallSubject(call) if call.name == CREATES_FILES:
            return _kept_lines(
                diff_spans(line) if line.startswith(("+", "\\")) else argument_spans(line)
                for line in lines
            )
        case CallSubject():
            return _kept_lines(map(argument_spans, lines))
        case _:
            return _kept_lines(map(row, lines))


def _file(file: FileChange) -> list[ContextLine]:
    return [ContextLine(row(file.heading, "strong"), kept=True), *change_lines(file.rows)]


def _kept_lines(rows: Iterable[Row]) -> list[ContextLine]:
    return [ContextLine(spans, kept=True) for spans in rows]
