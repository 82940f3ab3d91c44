"""Changing what is to be approved: the arguments of a call, or the result that the model would read."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from midturn.core.prompt import Prompt
from midturn.core.reply import Edited
from midturn.core.subject import CallSubject, ResultSubject
from midturn.prompts.accept import accept_arguments
from midturn.prompts.content import pretty
from midturn.prompts.keys import Command, KeyStep
from midturn.prompts.plain.dialog import Saying
from midturn.prompts.plain.draft import EDITOR, Draft, DraftField, Entered, draft_rows, fill

_RETURN = Command("c", "return to the question", KeyStep.REPLY, word="back to the question")
_HELP = Command("?", "this help", KeyStep.HELP)


def edit_subject(prompt: Prompt, width: int) -> Generator[Saying, str, Edited | None]:
    """Let the person change it; None when they return to the question."""
    match prompt.subject:
        case CallSubject(call):
            field = DraftField("the new arguments in JSON", partial(accept_arguments, prompt), (_RETURN, EDITOR, _HELP), ".json")
            text = pretty(call.arguments)
        case ResultSubject(content=text):
            field = DraftField("the new result", str, (_RETURN, EDITOR, _HELP))
        case _:
            return None
    draft, rows = Draft(text), draft_rows("Now:", text)
    while True:
        entered = yield from fill(field, draft, rows, width)
        if isinstance(entered, Entered):
            return Edited(entered.value)
        command, draft = entered
        if command is _RETURN:
            return None
        rows = ["  :c - return to the question", "  :e - edit it in your editor"]
