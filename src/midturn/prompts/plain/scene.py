"""What all plain prompts share: the opening rows, the keys, the help, and the row that says what was answered."""

from __future__ import annotations

from collections.abc import Generator

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import SchemaType, SecretType, TextType
from midturn.core.reply import Answered, Edited, Replied, Reply
from midturn.core.visible import exact
from midturn.prompts.answer_text import reply_text
from midturn.prompts.body import PLAIN_GUTTER, ROWS_SHOWN, body_rows, more_rows, question_rows
from midturn.prompts.cells import clip, hang
from midturn.prompts.command import Command, Commands, Step, commands
from midturn.prompts.content import asked_by, quoted_label, split_lines
from midturn.prompts.plain.dialog import Say, Saying
from midturn.prompts.plain.entry import read_text
from midturn.prompts.plain.subject import edit_subject

_LONG_DEFAULT = 40


class Scene:
    """One prompt in plain lines of `width` cells."""

    def __init__(self, prompt: Prompt, width: int) -> None:
        self.prompt = prompt
        self.width = width
        rows = body_rows(prompt, width, PLAIN_GUTTER)
        self.shown, self.rest = rows[:ROWS_SHOWN], rows[ROWS_SHOWN:]
        self.commands: Commands = commands(prompt, len(self.rest))
        self.viewed = not self.rest

    def opening(self) -> list[str]:
        """Return header, context and question: what is printed once."""
        question = question_rows(self.prompt, self.width)
        return [self._header(), *self.shown, *more_rows("...", len(self.rest), self._view_keys(), self.width), *question, *self._error()]

    def transcript(self, reply: Reply) -> str:
        """Return the row that stays: what was answered, and whether it was approved without having been seen whole."""
        approved = isinstance(reply, Edited) or (isinstance(reply, Answered) and reply.value is True)
        unseen = f" ({len(self.rest)} rows were not viewed)" if approved and not self.viewed else ""
        return f"Answer: {reply_text(self.prompt, reply)}{unseen}"

    def act(self, command: Command) -> Generator[Saying, str, Reply | list[str]]:  # noqa: PLR0911 (one for each step)
        """Do what a key says: a reply, or rows to show before the question is asked again."""
        match command.does:
            case Step.HELP:
                return self.help(self.commands)
            case Step.VIEW:
                self.viewed = True
                return self.rest
            case Step.PRINT:
                self.viewed = True
                return body_rows(self.prompt, self.width, PLAIN_GUTTER)
            case Step.REPLY:
                text = yield from read_text(Say(ask=_REPLY, entry="text"))
                return self.opening() if text is None else Replied(text.strip() or None)
            case Step.GIVE_REASON:
                text = yield from read_text(Say(ask=_REASON, entry="text"))
                return self.opening() if text is None else Answered(False, reason=text.strip() or None)
            case Step.EDIT:
                return (yield from edit_subject(self.prompt)) or self.opening()
            case Step.OTHER | Step.ANSWER:
                raise ValueError("Only lists offer other words, and only menus lead to an answer.")
            case reply:
                return reply

    def help(self, offered: Commands, prefix: str = "") -> list[str]:
        """Return a row for every key."""
        rows = [f"  {prefix}{command.key} - {command.help}" for command in offered]
        return [wrapped for row in (*rows, "  Ctrl-C or Ctrl-D - cancel and end the turn") for wrapped in hang(row, self.width, "      ")]

    def short(self, text: str) -> str:
        """Cut a default to what can stand inside a line."""
        return clip(text, _LONG_DEFAULT)

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

    def _header(self) -> str:
        prompt = self.prompt
        place = f", question {prompt.index} of {prompt.total}" if prompt.total > 1 else ""
        return f"{asked_by(prompt)} asks{place}{quoted_label(prompt)}:"


_REPLY = "Your reply, Enter alone to send none, :c to return to the question: "
_REASON = "The reason, Enter alone to give none, :c to return to the question: "
