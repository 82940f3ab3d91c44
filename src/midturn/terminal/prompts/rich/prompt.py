"""A whole prompt: what is printed once above, the faces that take keys, and the row that stays."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from midturn.events.prompt import CallSubject, FormSubject, Prompt
from midturn.question.answer_type import MultiSelectType, SchemaType, SecretType, SelectType, TextType
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
from midturn.terminal.prompts.rich.choice import Choice, Help
from midturn.terminal.prompts.rich.field import SecretField, TextField
from midturn.terminal.prompts.rich.filtering import Filtering
from midturn.terminal.prompts.rich.keyboard import Key, Paste, Press
from midturn.terminal.prompts.rich.listing import Listing, OptionList
from midturn.terminal.prompts.rich.pager import ContextLine, ContextRows, Pager, argument_spans, change_lines, diff_spans, plain_context
from midturn.terminal.prompts.rich.screen import (
    Face,
    Frame,
    Opened,
    Pressed,
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
    first_face,
    other_field,
    reason_field,
    reply_field,
    rule_field,
    subject_field,
    text_menu,
)

GUTTER = Span("│ ", "gutter")

_TOO_SOON = "that key came too soon and was not taken: press it again"
_SIGNS = {"c-z": Sign.SUSPEND, "c-l": Sign.REDRAW}
_LEAVES_TEXT = "Esc again leaves the question open, and drops what you typed; any other key does not"
_ENDS = "s again ends the turn; any other key does not"


class Settle:
    """Keys that come too soon are not meant for this prompt: armed for good after `quiet` seconds without a key, as `now` counts them."""

    def __init__(self, quiet: float, now: float) -> None:
        self._quiet = quiet
        self._last = now
        self._armed = False

    def hears(self, now: float) -> bool:
        """Tell whether a key that is pressed now counts."""
        self._armed = self._armed or now - self._last >= self._quiet
        self._last = now
        return self._armed


class RichScene:
    """One prompt; keys go in with the time at which they were pressed, frames come out.

    `context` lays out the rows above the question, of which a screen with `height` rows shows a part.
    """

    def __init__(
        self,
        prompt: Prompt,
        columns: int,
        settle: Settle,
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
        self._offered = offered if self._prompt is prompt else tuple(one for one in offered if one.does is not KeyStep.GIVE_REASON)
        *self._question, self._tail = question_rows(self._prompt, columns)
        self._note = ""
        self._leaving: Key | None = None
        self._writing = KeyStep.REPLY
        self._drafts: dict[KeyStep, str] = {}
        self._help = Help()
        self._helped: Face | None = None
        self._faces: list[Face] = [first_face(self._prompt, self._tail, self._offered)]
        if menu_first and isinstance(self._prompt.question.answer_type, TextType | SchemaType | SecretType):
            self._faces.append(self._menu())

    def own_words(self, reply: Reply) -> str:
        """Return the words of the person's own: those of the reply, or else those that were typed and not sent."""
        typed = self._drafts.get(KeyStep.OTHER, "")
        if not isinstance(reply, Answered) or isinstance(reply.value, SecretValue):
            return typed
        return first_other(replace(self._asked, prefill=reply.value)) or typed

    def restore_own_words(self, words: str) -> None:
        """Put words that were typed before into the field for words of the person's own."""
        if words:
            self._drafts[KeyStep.OTHER] = words

    def static(self) -> tuple[Row, ...]:
        """Return what is printed once: who asks, the context, what was wrong with the last reply, all of the question but its last row."""
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
        more = [row(text, "error") for text in more_rows("…", self._cut, self._view_keys(), self._columns)]
        question = [row(part) for text in self._question for part in hang(text, self._columns, "  ")]
        return joined([clipped(header, self._columns)], self._body[: self._shown], more, self._error(), question)

    def refit(self, columns: int, height: int = 0) -> None:
        """Lay out anew what is printed above, for a window of another size: no row may go on at its edge without the gutter."""
        all_seen = self._unseen == 0
        self._columns = columns
        self._body = body(self._prompt, columns, self._context)
        *self._question, self._tail = question_rows(self._prompt, columns)
        self._faces[0].retitle(self._tail)
        self._shown = rows_shown(len(self._body), height)
        self._seen = len(self._body) if all_seen else self._shown

    def pager(self) -> Pager:
        """Return everything that stands above the question, for a screen of its own; it is laid out for the width that it gets."""
        first = self._seen if self._unseen else 0
        return Pager(self._whole, first, exit_reply(self._prompt))

    def _whole(self, columns: int) -> list[Row]:
        """Return the body and, below it, the previews of all options, or the arguments that the body shows as a change."""
        rows = body(self._prompt, columns, self._context)
        previews = [row(text) for text in preview_rows(self._prompt, columns, GUTTER.text)]
        return [*rows, *([()] if rows and previews else []), *previews, *self._as_sent(columns)]

    def _as_sent(self, columns: int) -> list[Row]:
        """Return the arguments of a call as they are sent, if the body shows them as a change."""
        subject = self._prompt.subject
        if not isinstance(subject, CallSubject) or change_of_call(subject.call) is None:
            return []
        heading = row("The arguments as they are sent:", "strong")
        lines = _kept_lines(map(argument_spans, exact_lines(subject.call)))
        room = max(1, columns - cells(GUTTER.text))
        return [(GUTTER, *spans) for spans in ((), heading, *(found for line in lines for found in line.rows(room)))]

    def paged(self, pager: Pager) -> None:
        """Take note of what was seen of it."""
        self._seen = len(self._body) if pager.unseen == 0 else max(self._seen, len(self._body) - pager.unseen)

    @property
    def counts_down(self) -> bool:
        """Whether it says how long there is left for an answer."""
        return bool(self._prompt.deadline)

    @property
    def entry(self) -> KeyMode:
        """What keys do now."""
        return self._faces[-1].entry

    @property
    def about(self) -> str:
        """Say in one line who asks what."""
        return about(self._prompt)

    def press(self, key: Key, now: float) -> Reply | Edit | Sign | None:  # noqa: PLR0911 (one for each thing that a key may do)
        """Take a key: what comes back is the reply, or something that only the terminal can do."""
        self._note = ""
        leaving, self._leaving = self._leaving, None
        face = self._faces[-1]
        if isinstance(key, Press) and key.key == "c-c":
            return self._leave(key, sure=leaving is not None)
        if not self._settle.hears(now) and _may_answer(face, key):
            self._note = _TOO_SOON
            return None
        if isinstance(key, Press) and key.key == "c-d" and face.empty:
            return self._leave(key, sure=leaving is not None)
        if isinstance(key, Press) and (sign := _SIGNS.get(key.key)):
            return sign
        if isinstance(key, Press) and self._is_for_help(face, key):
            return None
        if key == Press("escape") and self._escape_defers(face):
            return self._defer(key, sure=leaving == key)
        if leaving not in (None, key):  # a key after "really?" answers that, and not the question
            return None
        outcome = self._do(face.press(key))
        if isinstance(key, Paste) and not key.marked and face.entry.writes and (not key.text or "\n" in key.text):
            self._note = NOT_SUBMITTED
        if isinstance(outcome, EndedTurn) and not leaving:
            self._leaving = key
            self._note = _ENDS
            return None
        return outcome

    def _is_for_help(self, face: Face, key: Press) -> bool:
        """Take a key that shows, scrolls or hides the help below a field. The field keeps its text, and takes all other keys.

        Where Escape leaves the question open, F1 opens the menu, which nothing else would open.
        """
        if isinstance(face, Choice | Listing):
            return False
        if key.key == "f1" and self._prompt.exit_leaves_open:
            self._faces.append(self._menu())
            return True
        if key.key == "f1":
            self._help = Help()
            self._help.toggle()
            self._helped = None if self._helped is face else face
            return True
        if self._helped is face and key.key == "escape":
            self._helped = None
            return True
        return self._helped is face and key.key in ("pageup", "pagedown") and self._help.scrolls(key.key)

    def _escape_defers(self, face: Face) -> bool:
        """Whether Escape leaves the question open: not from what a key has opened, and not where it clears a filter."""
        return self._prompt.exit_leaves_open and len(self._faces) == 1 and not (isinstance(face, Filtering) and face.words)

    def _defer(self, key: Key, *, sure: bool) -> Deferred | None:
        """Leave the question open; where that drops typed text, only after the key was pressed again."""
        face = self._faces[-1]
        if sure or not (face.changed if isinstance(face, TextField) else not face.empty):
            return Deferred()
        self._leaving = key
        self._note = _LEAVES_TEXT
        return None

    def _leave(self, key: Key, *, sure: bool) -> Reply | None:
        """End the turn, or leave the question open. If that drops answers of a form, the key has to be pressed twice."""
        if sure or self._prompt.exit_leaves_open or not loses_answers(self._prompt):
            return exit_reply(self._prompt)
        self._leaving = key
        self._note = LEAVES_FORM
        return None

    def edited(self, text: str) -> None:
        """Take back what the editor wrote."""
        if isinstance(face := self._faces[-1], TextField):
            face.edited(text)

    def say(self, message: str) -> None:
        """Show something below the live rows until the next key."""
        self._note = exact(message)

    def frame(self, size: Size) -> Frame:
        """Draw the live rows into the room there is; the question stays above whatever its keys have opened."""
        notes = [row(text, "error") for text in hang(self._note, size.columns, "  ")] if self._note else []
        notes += [row(text, "dim") for text in hang(left, size.columns, "  ")] if (left := self._prompt.time_left()) else []
        above = self._kept(size)
        room = max(1, size.rows - len(notes) - len(above))
        helped = self._help_below(Size(size.columns, room // 2)) if self._helped is self._faces[-1] else []
        frame = self._faces[-1].frame(Size(size.columns, max(1, room - len(helped))))
        at, column = frame.cursor
        return fitted(Frame(joined(above, frame.rows, helped, notes), (at + len(above), column)), size)

    def _help_below(self, size: Size) -> list[Row]:
        """Draw the help of a field, in half of the room at most."""
        return self._help.window(field_help(self._faces[-1], self._prompt, self._offered, size), size.rows, "PgUp and PgDn scroll")

    def transcript(self, reply: Reply, columns: int) -> Row:
        """Return the row that stays: the question's last row and what was answered; and how much was not seen, where there is room."""
        answer, unviewed = reply_text(self._prompt, reply), self._unviewed(reply)
        if not unviewed:
            return transcript_row(self._tail, answer, columns)
        whole = transcript_row(self._tail, f"{answer} {unviewed}", columns)
        return whole if row_text(whole).endswith(unviewed) else transcript_row(self._tail, answer, columns)

    def settled(self, reply: Reply, columns: int) -> list[Row]:
        """Return all rows that stay: below that one what was not viewed, if it is not said there, and what a remembered answer covers."""
        whole, unviewed = self.transcript(reply, columns), self._unviewed(reply)
        said = not unviewed or row_text(whole).endswith(unviewed)
        texts = [*([] if said else [unviewed]), covered_text(self._prompt, reply)]
        return [whole, *(row(part, "dim") for text in texts if text for part in hang(text, columns, "  "))]

    def _unviewed(self, reply: Reply) -> str:
        """Say how much of what is approved was not seen."""
        approved = isinstance(reply, Edited) or (isinstance(reply, Answered) and reply.value is True)
        return f"({self._unseen} rows were not viewed)" if approved and self._unseen else ""

    @property
    def _unseen(self) -> int:
        return max(0, len(self._body) - self._seen)

    @property
    def _cut(self) -> int:
        """Number of rows not printed above the question."""
        return len(self._body) - self._shown

    def _kept(self, size: Size) -> list[Row]:
        """Return what stays of the question while something else takes the keys, in half of the room at most."""
        if len(self._faces) == 1:
            return []
        rows = self._faces[0].kept(size)
        room = max(1, size.rows // 2)
        kept = rows if len(rows) <= room else [*rows[: room - 1], row("  …", "dim")]
        return [tuple(Span(span.text, "dim") for span in drawn) for drawn in kept]

    def _do(self, outcome: Pressed) -> Reply | Edit | Sign | None:
        match outcome:
            case Command(does=KeyStep() as step):
                return self._step(step)
            case Command(does=AsJson()):
                return AsJson(self._begun())
            case Command(does=reply):
                return reply if not isinstance(reply, KeyStep) else None
            case Opened(face):
                self._faces.append(face)
            case Sign.MENU:
                self._faces.append(self._menu())
            case Sign.LEAVE:
                left = self._faces.pop()
                if isinstance(left, TextField) and len(self._faces) == 1:
                    self._drafts[self._writing] = left.text
            case _:
                return outcome
        return None

    def _begun(self) -> Json:
        """Return the input of the field that was not submitted."""
        face = self._faces[0]
        if isinstance(face, TextField):
            return face.text or None
        return (face.marked_values or None) if isinstance(face, OptionList) else None

    def _step(self, step: KeyStep) -> Sign | None:
        """Open what a key opens; a menu closes with it."""
        if len(self._faces) > 1:
            self._faces.pop()
        if step is KeyStep.VIEW:
            return Sign.VIEW
        opened = self._opened(step)
        if opened is not None:
            self._faces.append(opened)
            self._writing = step
            if isinstance(opened, TextField) and (draft := self._drafts.get(step)):
                opened.edited(draft)  # what was left with Escape is there again
        return None

    def _opened(self, step: KeyStep) -> Face | None:
        """Return the face that a command opens."""
        match step:
            case KeyStep.REPLY:
                return reply_field()
            case KeyStep.GIVE_REASON:
                return reason_field()
            case KeyStep.OTHER:
                return other_field(self._prompt, self._faces[0])
            case KeyStep.EDIT:
                return subject_field(self._prompt)
            case KeyStep.RULE:
                return rule_field(self._prompt)
            case KeyStep.VIEW | KeyStep.HELP | KeyStep.ANSWER:
                return None

    def _menu(self) -> Choice:
        if isinstance(self._prompt.question.answer_type, SelectType | MultiSelectType):
            return cancel_menu(self._offered, filters=isinstance(self._faces[0], Filtering))
        return text_menu(self._offered, secret=isinstance(self._faces[0], SecretField))

    def _view_keys(self) -> str:
        """Name what shows the rest: where letters are typed, `v` stands in the menu."""
        menu = "F1" if self._prompt.exit_leaves_open else "Esc"
        return f"{menu} v" if isinstance(self._faces[0], TextField | Filtering | SecretField) else "v"

    def _error(self) -> list[Row]:
        if self._prompt.error is None:
            return []
        first, *more = split_lines(self._prompt.error)
        lines = [f"! {exact(first)}", *(f"  {exact(line)}" for line in more)]
        return [row(text, "error") for line in lines for text in hang(line, self._columns, "  ")]


def _may_answer(face: Face, key: Key) -> bool:
    """Tell whether a key could be an answer: every key but those that only write text."""
    return face.submits is None or (isinstance(key, Press) and key.key in face.submits)


def body(prompt: Prompt, columns: int, context: ContextRows = plain_context) -> list[Row]:
    """Return what a reviewer said, the context and the subject behind the gutter."""
    room = max(1, columns - cells(GUTTER.text))
    quoted = [found for line in verdict_lines(prompt) for found in cut(row(line), max(1, room - cells(QUOTE)))]
    said: list[Row] = [(Span(QUOTE, "quoted"), *found) for found in quoted]
    above = [*context(own_context(prompt), room)] if own_context(prompt) else []
    exactly = _subject_rows(prompt, room)
    parts = [part for part in (said, above, exactly) if part]
    rows = [found for number, part in enumerate(parts) for found in ([(), *part] if number else part)]
    return [(GUTTER, *spans) for spans in rows]


def transcript_row(question: str, answer: str, columns: int) -> Row:
    """Put question and answer into one row; where both are long, each gets half."""
    room = max(1, columns - 1)
    if cells(f"{question} {answer}") <= room:
        return (Span(f"{question} "), Span(answer, "strong"))
    width = max(min(cells(question), room - 1 - cells(answer)), (room - 1) // 2)
    asked = clip(question, width)
    return (Span(f"{asked} "), Span(clip(answer, max(1, room - 1 - cells(asked))), "strong"))


def _subject_rows(prompt: Prompt, room: int) -> list[Row]:
    """Break answers at their spaces, and what is approved character by character."""
    if isinstance(prompt.subject, FormSubject):
        return [row(part) for line in subject_lines(prompt) for part in continued_words(line, room)]
    return [found for line in _subject(prompt) for found in line.rows(room)]


def _subject(prompt: Prompt) -> list[ContextLine]:
    """Colour what is to be approved: new files and edits of files as a diff, arguments by their names."""
    lines = subject_lines(prompt)
    match prompt.subject:
        case CallSubject(call) if change := change_of_call(call):
            named = lines[: len(lines) - len(change.lines)]
            return [*_kept_lines(map(argument_spans, named)), *(line for file in change.files for line in _file(file))]
        case CallSubject(call) if call.name == CREATES_FILES:
            return _kept_lines(diff_spans(line) if line.startswith(("+", "\\")) else argument_spans(line) for line in lines)
        case CallSubject():
            return _kept_lines(map(argument_spans, lines))
        case _:
            return _kept_lines(map(row, lines))


def _file(file: FileChange) -> list[ContextLine]:
    return [ContextLine(row(file.heading, "strong"), kept=True), *change_lines(file.rows)]


def _kept_lines(rows: Iterable[Row]) -> list[ContextLine]:
    return [ContextLine(spans, kept=True) for spans in rows]
