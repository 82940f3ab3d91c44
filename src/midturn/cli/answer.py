"""`midturn answer`: answers one open question (spec 7.5)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import click
import msgspec
from msgspec import Struct

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note
from midturn.cli.place import Place, find_place
from midturn.core.answer import answer_from_words
from midturn.core.answer_type import SecretType
from midturn.core.json_value import Json
from midturn.core.prompt import Prompt
from midturn.core.reply import Answered, EndedTurn, Replied, Reply
from midturn.core.stream import OpenQuestion
from midturn.errors import AnswerError, NotOpen, Problem
from midturn.runtime.prompter import ask_once
from midturn.store.store import Receipt


class Given(Struct, frozen=True, kw_only=True):
    """What was given on the command line."""

    id: str
    value: str | None = None
    reason: str | None = None
    reply: str | None = None
    cancel: bool = False
    resume: bool = False
    store: Path | None = None


@click.command
@click.argument("id")
@click.argument("value", required=False)
@click.option("--reason", metavar="TEXT", help="Why; recorded with the answer.")
@click.option("--reply", metavar="TEXT", help="Say this to the model instead of answering.")
@click.option("--cancel", is_flag=True, help="End the turn.")
@click.option("--resume", is_flag=True, help="Go on with the turn at once.")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="The directory of the conversations.")
def command(**given: object) -> ExitStatus:
    """Answer the open question ID (or a unique beginning of it) with VALUE: JSON where that fits, else the bare words."""
    return run_answer(Given(**given))  # type: ignore[arg-type]  # click has checked every field


def run_answer(given: Given) -> ExitStatus:
    """Answer a question, and go on with its turn where that is wanted."""
    place = find_place(given.store)
    question = _find(place, given.id)
    receipt = asyncio.run(_answer(place, question, given))
    note(f"midturn: answered. {_next(receipt, question, given)}".rstrip())
    if given.resume:
        from midturn.cli.resume import Resume, run_resume

        return run_resume(Resume(id=question.conversation, store=given.store))
    return ExitStatus.DONE


def _find(place: Place, id: str) -> OpenQuestion:
    fitting = [question for question in place.store.pending() if question.id.startswith(id)]
    if len(fitting) != 1 and id not in [question.id for question in fitting]:
        what = "No open question has" if not fitting else f"{len(fitting)} open questions have"
        raise NotOpen(f"{what} an id that begins with {id!r}. `midturn inbox` lists the open ones.")
    return fitting[0]


async def _answer(place: Place, question: OpenQuestion, given: Given) -> Receipt:
    answer = place.store.answer
    if given.cancel:
        return await answer(question.id, cancel=True, via="inbox")
    if given.reply is not None:
        return await answer(question.id, reply=given.reply, via="inbox")
    if question.kind != "tool":
        return await _decide(place, question, given)
    if isinstance(question.question.answer_type, SecretType):
        raise AnswerError([Problem("", f"A secret is answered at its prompt only: `midturn resume {question.conversation}`.")])
    if given.value is None:
        return await _prompted(place, question, given)
    return await answer(question.id, _value(question, given.value), reason=given.reason, via="inbox")


def _value(question: OpenQuestion, words: str) -> Json:
    """Read VALUE: a map of answers to a form, else an answer to the question."""
    if question.form is not None and words.lstrip().startswith("{"):
        return cast("Json", msgspec.json.decode(words))
    return answer_from_words(question.question.asked(question.request.id), words)


async def _decide(place: Place, question: OpenQuestion, given: Given) -> Receipt:
    """Decide about a call, a result or the answers of a form: `y`, `n`, or `{"edit": …}`."""
    words = (given.value or "").strip()
    if words.lower() in ("y", "yes", "true"):
        return await place.store.answer(question.id, approve=True, reason=given.reason, via="inbox")
    if words.lower() in ("n", "no", "false"):
        return await place.store.answer(question.id, approve=False, reason=given.reason, via="inbox")
    try:
        edit = msgspec.json.decode(words, type=dict[str, msgspec.Raw])["edit"]
    except (msgspec.DecodeError, KeyError):
        raise AnswerError([Problem("", 'An approval takes `y`, `n` or `{"edit": …}`.')]) from None
    return await place.store.answer(question.id, arguments=msgspec.json.decode(edit), reason=given.reason, via="inbox")


async def _prompted(place: Place, question: OpenQuestion, given: Given) -> Receipt:
    """Ask at the terminal, as the turn would."""
    from midturn.terminal.prompter import TerminalPrompter

    prompt = Prompt(
        question=question.question.asked("answer"),
        asked_by=question.source.header,
        conversation=question.conversation,
        tool=question.tool,
        arguments=question.arguments,
    )
    reply: Reply = await ask_once(TerminalPrompter(), prompt)
    match reply:
        case Answered(value, reason=reason):
            return await place.store.answer(question.id, cast("Json", value), reason=reason or given.reason, via="inbox")
        case Replied(text):
            return await place.store.answer(question.id, reply=text or "", via="inbox")
        case EndedTurn():
            return await place.store.answer(question.id, cancel=True, via="inbox")
        case _:
            raise AnswerError([Problem("", "No answer was given: name a VALUE, or answer at a terminal.")])


def _next(receipt: Receipt, question: OpenQuestion, given: Given) -> str:
    """Say what happens now."""
    if given.resume:
        return ""
    if receipt.held_by is not None:
        return "The process that holds the conversation takes it from here."
    return f"`midturn resume {question.conversation}` goes on with the turn."
