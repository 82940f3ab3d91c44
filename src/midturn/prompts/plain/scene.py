"""What all plain prompts share: the opening rows, the keys, the help, and the row that says what was answered."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import SchemaType, SecretType, TextType
from midturn.core.reply import Answered, Edited, EndedTurn, Replied, Reply
from midturn.core.visible import exact
from midturn.prompts.answer_text import covered_text, reply_text
from midturn.prompts.body import PLAIN_GUTTER, ROWS_SHOWN, body_rows, more_rows, question_rows
from midturn.prompts.cells import cells, clip, glued, hang, unglued
from midturn.prompts.content import asked_by, quoted_label, split_lines
from midturn.prompts.keys import HELP, Command, Commands, KeyStep, commands, covered, find_named, leaves
from midturn.prompts.native import native
from midturn.prompts.plain.dialog import EntryKind, Say, Saying
from midturn.prompts.plain.draft import edit_subject
from midturn.prompts.plain.entry import read_text

INDENT = "  "
_LONG_DEFAULT = 40


class Scene:
    """One prompt in plain lines of `width` cells."""

    def __init__(self, prompt: Prompt, width: int) -> None:
        self.prompt = native(prompt)
        self.width = width
        rows = body_rows(self.prompt, width, PLAIN_GUTTER)
        self.shown, self.rest = rows[:ROWS_SHOWN], rows[ROWS_SHOWN:]
        offered = commands(self.prompt, len(self.rest))
        plain = self.prompt is prompt
        self.commands: Commands = offered if plain else tuple(one for one in offered if one.does is not KeyStep.GIVE_REASON)
        self.viewed = not self.rest

    def say(self, rows: Sequence[str], ask: str, entry: EntryKind = "choice") -> Say:
        """Print rows, then ask; what does not fit into one row is broken between words."""
        broken = "\n".join(unglued(hang(ask, max(1, self.width - 1), INDENT)))
        return Say(rows=[*rows], ask=f"{broken} ", entry=entry)

    def wrapped(self, lines: Sequence[str]) -> list[str]:
        """Break at words what is too long for a row."""
        return [row for line in lines for row in hang(line, self.width, INDENT)]

    def keys(self) -> str:
        """Name the keys in words: `y yes, n no, r reply, s end turn, ? help`. No row ends between a key and its words."""
        return ", ".join(glued(spoken_key(command), self.width - len(INDENT) - 2) for command in self.commands)

    def opening(self) -> list[str]:
        """Return header, context and question: what is printed once."""
        question = question_rows(self.prompt, self.width)
        more = more_rows("...", len(self.rest), self._view_keys(), self.width)
        return [*self._header(), *self.shown, *more, *question, *self._remembering(), *self._error()]

    def transcript(self, reply: Reply) -> str:
        """Return the row that stays: what was answered, and whether it was approved without having been seen whole."""
        approved = isinstance(reply, Edited) or (isinstance(reply, Answered) and reply.value is True)
        unseen = f" ({len(self.rest)} rows were not viewed)" if approved and not self.viewed else ""
        return f"Answer: {reply_text(self.prompt, reply)}{unseen}"

    def covered(self, reply: Reply) -> list[str]:
        """Return the rows below that one: what a remembered answer covers."""
        text = covered_text(self.prompt, reply)
        return hang(text, self.width, "  ") if text else []

    def act(self, command: Command) -> Generator[Saying, str, Reply | list[str]]:  # noqa: PLR0911 (one for each step)
        """Do what a key says: a reply, or rows to show before the question is asked again."""
        match command.does:
            case KeyStep.HELP:
                return self.help(self.commands)
            case KeyStep.VIEW:
                self.viewed = True
                return self.rest or body_rows(self.prompt, self.width, PLAIN_GUTTER)
            case KeyStep.REPLY:
                text = yield from read_text(self.say((), _REPLY, "text"))
                return self.opening() if text is None else Replied(text.strip() or None)
            case KeyStep.GIVE_REASON:
                text = yield from read_text(self.say((), _REASON, "text"))
                return self.opening() if text is None else Answered(False, reason=text.strip() or None)
            case KeyStep.EDIT:
                return (yield from edit_subject(self.prompt, self.width)) or self.opening()
            case KeyStep.OTHER | KeyStep.ANSWER:
                raise ValueError("Only lists offer other words, and only menus lead to an answer.")
            case EndedTurn():
                typed = yield self.say((), _ENDS)
                return EndedTurn() if find_named(self.commands, typed.strip()) is command else self.opening()
            case reply:
                return reply

    def help(self, offered: Commands, prefix: str = "") -> list[str]:
        """Return a row for every key."""
        spoken = {command.key: f" (or: {command.spoken})" for command in offered if command.spoken and not prefix}
        rows = [f"  {prefix}{command.key}{spoken.get(command.key, '')} - {command.help}" for command in offered]
        leave = f"  Ctrl-C or Ctrl-D - {leaves(self.prompt)}"
        return [wrapped for row in (*rows, leave) for wrapped in hang(row, self.width, "      ")]

    def short(self, text: str) -> str:
        """Cut a default to what can stand inside a line."""
        return clip(text, _LONG_DEFAULT)

    def _remembering(self) -> list[str]:
        """Say what the words cover that hold for more than this question."""
        if not self.prompt.may_remember:
            return []
        words = "Always:" if self.prompt.always else "Always and never: yes and no to"
        return hang(f"{words} {covered(self.prompt)}.", self.width, INDENT)

    def _view_keys(self) -> str:
        """Name what shows the rest: where text is typed, keys begin with a colon."""
        return ":v" if isinstance(self.prompt.question.answer_type, TextType | SecretType | SchemaType) else "v"

    def _error(self) -> list[str]:
        """Say why the last reply was not taken."""
        if self.prompt.error is None:
            return []
        first, *more = split_lines(self.prompt.error)
        rows = [f"Not accepted: {exact(first)}", *(f"  {exact(line)}" for line in more)]
        return [wrapped for row in rows for wrapped in hang(row, self.width, "  ")]

    def _header(self) -> list[str]:
        """Say who asks; every row of it stands behind the gutter."""
        prompt = self.prompt
        place = f", question {prompt.index} of {prompt.total}" if prompt.total > 1 else ""
        optional = " (optional)" if prompt.question.optional else ""
        text = f"{asked_by(prompt)} asks{place}{quoted_label(prompt)}{optional}:"
        return [f"{PLAIN_GUTTER}{row}" for row in hang(text, max(1, self.width - cells(PLAIN_GUTTER)), INDENT)]


def spoken_key(command: Command) -> str:
    """Name a key and the words for it."""
    if command is HELP:
        return "? help"
    if command.spoken:
        return f"{command.key} {command.spoken}"
    return f"{command.key} {command.word or command.title}".rstrip()


_REPLY = "Your reply, Enter alone to send none, :c to return to the question:"
_REASON = "The reason, Enter alone to give none, :c to return to the question:"
_ENDS = "Type s again to end the turn, or Enter alone to return to the question:"
