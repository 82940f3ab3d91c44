"""`midturn answer`: answers one open question, or a whole form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, LiteralString

import click
from msgspec import Struct

from midturn.cli.answer_submission import (
    VIA,
    Submitting,
    Typed,
    TypedEdit,
    TypedValue,
    as_edited,
    check_edit,
    own_words,
    read_value,
    recorded_rows,
)
from midturn.cli.command_context import Place, StoreAddress, environment, find_place
from midturn.cli.locked import is_attached
from midturn.cli.options import with_question, with_store
from midturn.cli.output import ExitStatus, Shown, line, note, presented
from midturn.cli.question_rows import answered, place_of, question_rows
from midturn.config.places import own_name
from midturn.errors import AnswerError, DigestMismatch, NotAllowed, NotOpen, Problem
from midturn.events.open_question import SHORT_DIGEST, Asker, OpenQuestion, holds_secret, parse_address
from midturn.events.types import AnsweredBy
from midturn.question.json_value import shown
from midturn.question.people import Directory
from midturn.question.reply import Deferred, EndedTurn
from midturn.security.authorization import for_people_only
from midturn.stores.answer_service import Receipt, too_late
from midturn.stores.port import HeldBy

if TYPE_CHECKING:
    from midturn.config.settings import Settings

# ----------------------------------------------------------------------------------------------------------------------
# The question meant by an id or the beginning of one


_LISTED = 5
_DIGEST = r"[0-9a-fA-F]{8,64}"


def find_question(place: Place, typed: str) -> OpenQuestion:
    """Return the open question whose id is `typed`, or whose id, or the part of it after the conversation, alone begins so.

    Raises:
        AlreadyAnswered: The whole id was typed, and the question was answered; the error says by whom.
        NotOpen: There is none, or several fit.
    """
    at, store = parse_address(typed), place.store
    open_now = store.pending_sync(at.conversation if at else None)
    fitting = [question for question in open_now if typed and (question.id.startswith(typed) or _event(question).startswith(typed))]
    exact = [question for question in fitting if typed in (question.id, _event(question))]
    found = exact if len(exact) == 1 else fitting
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join([*(question.id for question in found[:_LISTED]), *(["…"] if len(found) > _LISTED else [])])
        raise NotOpen(f"{shown(typed)} fits {len(found)} questions: {listed}. Give what follows the dash, or its beginning.")
    if at:
        raise store.run_sync("read", too_late(store.port, at))
    raise NotOpen(f"There is no open question {shown(typed)}. `midturn inbox{place.option}` lists those that there are.")


def _event(question: OpenQuestion) -> str:
    return question.request.event_id


# ----------------------------------------------------------------------------------------------------------------------
# `midturn answer`: answers one open question, or a whole form


class SubmissionFlags(Struct, frozen=True, kw_only=True):
    """Flags of the command line."""

    id: str
    value: str | None = None
    other: str | None = None
    reason: str | None = None
    reply: str | None = None
    cancel: bool = False
    resume: bool = False
    pass_to: tuple[str, ...] = ()
    take_back: bool = False
    digest: str = ""
    more: tuple[str, ...] = ()
    store: StoreAddress | None = None


@click.command
@with_question
@click.argument("value", required=False)
@click.argument("more", nargs=-1, metavar="[ID]... [VALUE]")
@click.option("--other", metavar="TEXT", help="Answer a question with options in your own words.")
@click.option("--reason", metavar="TEXT", help="Why; recorded with the answer.")
@click.option("--reply", metavar="TEXT", help="Say this to the model instead of answering.")
@click.option("--cancel", is_flag=True, help="End the turn.")
@click.option("--pass-to", multiple=True, metavar="NAME", help="Put the question to this person or group instead; may be repeated.")
@click.option("--digest", metavar="DIGEST", default="", help="Digest of the call that you saw, or its first 8 characters: confirms a yes.")
@click.option("--take-back", is_flag=True, help="Take back a yes of yours that waits for those of others.")
@click.option("--resume", is_flag=True, help="Go on with the turn at once.")
@with_store
def command(**given: object) -> ExitStatus:
    """Answer the open question ID (or a unique beginning of it).

    VALUE names an option, or its number; elsewhere it is JSON where that fits the question, else the bare words. For a form it may be
    an object by question id, for an approval it is y, n, or {"edit": ...}, and always or never where that may be remembered. Without a
    VALUE you are asked at the terminal.

    Several IDs with one VALUE at the end answer each of these questions with it; all are shown first.
    """
    return run_answer(SubmissionFlags(**given))  # type: ignore[arg-type]  # click has checked every field


def run_answer(given: SubmissionFlags) -> ExitStatus:
    """Answer a question, and go on with its turn where that is wanted."""
    _check(given)
    for_people_only("answer questions")
    place = find_place(given.store)
    if given.more:
        return _answer_several(place, given)
    question = find_question(place, given.id)
    if given.pass_to or given.take_back:
        return _note(place, question, given)
    if given.value is None and given.other is None and given.reply is None and not given.cancel:
        return _at_the_terminal(place, question, given)
    submitting = Submitting(place.store, question, _who(), given.reason, given.digest)
    if given.cancel:
        try:
            submitting.cancel()
        except NotAllowed as refused:
            from midturn.cli.resume import owner_may  # only who may not end a turn reads how its owner does

            raise NotAllowed(f"{refused}{owner_may(place, question.conversation)}", id=question.id, user=refused.user) from None
        note("midturn: the turn of conversation {} was ended.", question.conversation)
        return ExitStatus.DONE
    if given.reply is not None:
        receipt = submitting.reply(given.reply)
        note("{}  (reply) {}", question.question.text, given.reply)
        return _go_on(question, given, held=receipt.held)
    if holds_secret(question) and question.kind == "tool" and question.form is None:
        raise click.UsageError(
            f"A secret is only given at the terminal, never as a VALUE. Run `midturn answer {question.id}{place.option}` there."
        )
    value = TypedValue(own_words(question, given.other)) if given.other is not None else read_value(question, given.value or "")
    check_edit(place, question, value)
    if isinstance(value, TypedEdit) and given.reason is not None:
        raise click.UsageError("`--reason` explains a yes or a no; an edit is recorded without one.")
    receipt = _confirmed(place, question, lambda: submitting.value(value))
    _say_recorded(question, value)
    return _finish(question, given, receipt)


def _confirmed(place: Place, question: OpenQuestion, submit: Callable[[], Receipt]) -> Receipt:
    """Answer a question. If the yes has to name what it is to, show that, and how to confirm it.

    Raises:
        AnswerError: Nothing was recorded.
    """
    try:
        return submit()
    except DigestMismatch as error:
        now = next((one for one in place.store.pending_sync(question.conversation) if one.id == question.id), question)
        for left, right in question_rows(now, sys.stderr):
            note("{}  {}", left, right)
        message = (
            "Nothing was recorded: others may edit this or vote on it, so a yes has to name what you saw. This is asked now. "
            f"To say yes to exactly this: `midturn answer {now.id} yes --digest {error.digest[:SHORT_DIGEST]}{place.option}`."
        )
        raise AnswerError([Problem("", message)]) from None


def _finish(question: OpenQuestion, given: SubmissionFlags, receipt: Receipt) -> ExitStatus:
    """Say what is missing if the question is still open: the check of an edit, or the yes of others. Otherwise go on with the turn."""
    if receipt.proposed:
        return _proposed(question, given, receipt)
    if not receipt.votes:
        return _go_on(question, given, held=receipt.held)
    taking_back = line("`midturn answer {} --take-back{}`", question.id, find_place(given.store).option)
    note("midturn: {} have said yes. Another person has to; {} takes yours back.", receipt.votes, taking_back)
    return ExitStatus.DONE


def _proposed(question: OpenQuestion, given: SubmissionFlags, receipt: Receipt) -> ExitStatus:
    """Say what happens to an edit that decides nothing yet."""
    option = find_place(given.store).option
    if receipt.held or question.asker:
        note("midturn: the edit is recorded and decides nothing yet: `midturn inbox{}` shows what is asked now.", option)
        return ExitStatus.DONE
    if given.resume:
        return _resume(question, given)
    resuming = line("`midturn resume {}{}`", question.conversation, option)
    note("midturn: the edit is recorded and decides nothing yet: its rules are read when the turn goes on. {} goes on with it.", resuming)
    return ExitStatus.DONE


def _note(place: Place, question: OpenQuestion, given: SubmissionFlags) -> ExitStatus:
    """Pass a question on, or take a yes back."""
    user = _who().user
    if given.take_back:
        place.store.take_back_sync(question.id, user=user, via=VIA)
        note("midturn: your yes to {} is taken back.", question.question.text)
    else:
        known = load_directory()
        unknown = [name for name in given.pass_to if known.people and not known.knows(name)]
        if unknown:
            raise click.UsageError(f"There is no person or group {shown(unknown[0])} in the configuration.")
        place.store.pass_on_sync(question.id, given.pass_to, reason=given.reason, user=user, via=VIA)
        note("midturn: {} is put to {} now.", question.question.text, ", ".join(given.pass_to))
    return ExitStatus.DONE


def load_directory() -> Directory:
    """Return the people that the configuration names."""
    return _settings().directory


def _settings() -> Settings:
    from midturn.cli.loading import load_here  # hardly an answer needs the configuration

    return load_here().settings


def _answer_several(place: Place, given: SubmissionFlags) -> ExitStatus:
    """Answer several questions in the same way, after showing each; what one of them does not take, none is given."""
    *more, words = given.more
    ids = [given.id, given.value or "", *more]
    questions = [find_question(place, each) for each in ids]
    typed: list[Typed] = []
    for question in questions:
        if holds_secret(question):
            raise click.UsageError(f"{question.id} asks for a secret, which is given at the terminal, alone.")
        typed.append(read_value(question, words))
        check_edit(place, question, typed[-1])
    for question in questions:
        for left, right in question_rows(question):
            note("{}  {}", left, right)
        for row in answered(question, sys.stderr):
            note(row)
    status = ExitStatus.DONE
    for question, value in zip(questions, typed, strict=True):
        submitting = Submitting(place.store, question, _who(), given.reason)
        receipt = _confirmed(place, question, partial(submitting.value, value))
        for asked, answer in recorded_rows(question, value):
            note("{}  {}", asked, presented(answer))
        status = _finish(question, given, receipt)
    return status


def _who() -> AnsweredBy:
    """Return who answers: the user of this command."""
    return AnsweredBy("user", via=VIA, user=own_name(environment()))


def _say_recorded(question: OpenQuestion, value: Typed) -> None:
    """Say what was recorded, under what a yes or a no was said to; and where a form has more questions, that they are still to come."""
    for row in answered(as_edited(question, value), sys.stderr):
        note(row)
    rows = recorded_rows(question, value)
    for asked, answer in rows:
        note("{}  {}", asked, presented(answer))
    place = place_of(question)
    if question.form and len(rows) == 1 and place < question.form.total:
        note("midturn: this was question {} of a form of {}; the rest is asked when the turn goes on.", place, question.form.total)


def _told(asker: Asker) -> Shown:
    if asker.waits and asker.keeps_dialog:
        return line("midturn: answered. {} goes on as soon as its own dialog about this is left there, if that is open.", asker.name)
    if asker.waits:
        return line("midturn: answered. {}, which waits for it, goes on.", asker.name)
    if asker.cancelled:
        return line("midturn: answered and kept. {} has cancelled its call; it reads this when it asks again.", asker.name)
    if asker.ends:
        return line("midturn: recorded. The hook of {} that asked is gone: its own dialog decides, and it never reads this.", asker.name)
    return line("midturn: answered and kept. {}", line(_read_later(asker), asker.name))


def _read_later(asker: Asker) -> LiteralString:
    """Say when an agent reads an answer that none of its processes waits for, if it ever does."""
    if asker.defers:
        return "{} has ended with this call; it reads this when it is resumed."
    if asker.left and asker.process:
        return "{} has gone on; it reads this before its session ends, or if it makes the same call before any other."
    if asker.via == "mcp":
        return "The process of {} that asked is gone; its model reads this with `check_answer`."
    return "The process of {} that asked is gone; it reads this if its session goes on with this very call."


def _check(given: SubmissionFlags) -> None:
    ways = {
        "a VALUE": given.value is not None,
        "--other": given.other is not None,
        "--reply": given.reply is not None,
        "--cancel": given.cancel,
        "--pass-to": bool(given.pass_to),
        "--take-back": given.take_back,
    }
    named = [name for name, is_given in ways.items() if is_given]
    if len(named) > 1:
        raise click.UsageError(f"Answer in one way only, not with {' and '.join(named)}.")
    if given.digest and (named != ["a VALUE"] or given.more):
        raise click.UsageError("`--digest` says which call a VALUE is for: give it with one ID and one VALUE.")
    if given.digest and not re.fullmatch(_DIGEST, given.digest):
        raise click.UsageError(
            f"`--digest` takes 8 to 64 characters of a digest (0-9, a-f), not {given.digest!r:.80}. "
            f"`midturn inbox{find_place(given.store).option}` shows it."
        )
    if given.more and (len(named) > 1 or given.resume):
        raise click.UsageError("Several questions are answered with one VALUE at the end, and nothing else.")
    if given.reason is not None and named not in ([], ["a VALUE"], ["--other"], ["--pass-to"]):
        raise click.UsageError(f"`--reason` explains an answer; {named[0]} gives none.")


def _at_the_terminal(place: Place, question: OpenQuestion, given: SubmissionFlags) -> ExitStatus:
    if not is_attached(environment(), non_interactive=False):
        if holds_secret(question):
            raise click.UsageError(
                f"A secret is asked for, and there is no terminal to ask at. Run `midturn answer {question.id}{place.option}` at one: a "
                "VALUE on the command line would stay in your shell's history, and is not taken."
            )
        raise click.UsageError(f"There is no terminal to ask at. Give a VALUE: `midturn answer {question.id} VALUE{place.option}`.")
    if holds_secret(question):
        return _in_place(question, given, "a secret is given to its tool directly")  # and to nothing else
    from midturn.cli.answer_terminal import answer_here

    held = isinstance(place.run(place.port.look(question.conversation)), HeldBy)
    last = answer_here(place, question, _settings(), _who(), given.reason)
    if isinstance(last.reply, Deferred):
        return _left_open(place, question, last.prompt.event if last.prompt else "")
    if isinstance(last.reply, EndedTurn):
        note("midturn: the turn of conversation {} was ended.", question.conversation)
        return ExitStatus.ENDED_BY_USER
    still = next((each for each in place.store.pending_sync(question.conversation) if each.id == question.id), None)
    votes = still.whose.tally if still and still.whose else ""
    is_unchecked = still is not None and still.edit is not None and not still.edit.is_checked
    return _finish(question, given, Receipt(question.conversation, question.id, held, votes, proposed=is_unchecked))


def _left_open(place: Place, question: OpenQuestion, event: str) -> ExitStatus:
    """Say how to come back to the question that was left open: to answer it, or to the part of a form that was not recorded yet."""
    still = next((each for each in place.store.pending_sync(question.conversation) if each.request.event_id == event), None)
    if still is not None:
        command = line("`midturn answer {}{}`", still.id, place.option)
        note("midturn: nothing was decided. The question stays open: {} asks it again.", command)
    else:
        resuming = line("`midturn resume {}{}`", question.conversation, place.option)
        note(
            "midturn: your answers so far are recorded. The rest of the form is asked when the turn goes on: {} goes on with it.", resuming
        )
    return ExitStatus.SUSPENDED


def _in_place(question: OpenQuestion, given: SubmissionFlags, why: str) -> ExitStatus:
    """Go on with the turn itself, where everything can be asked."""
    note("midturn: {}, so the turn goes on here and now.", why)
    return _resume(question, given, exit_leaves_open=True)


def _resume(question: OpenQuestion, given: SubmissionFlags, *, exit_leaves_open: bool = False) -> ExitStatus:
    from midturn.cli.resume import ResumeFlags, run_resume  # most answers leave the turn to others

    return run_resume(ResumeFlags(id=question.conversation, store=given.store), exit_leaves_open=exit_leaves_open)


def _go_on(question: OpenQuestion, given: SubmissionFlags, *, held: bool) -> ExitStatus:
    if question.asker:
        note(_told(question.asker))
        if not given.resume or question.asker.waits or question.asker.cancelled:
            return ExitStatus.DONE
        from midturn.cli.answer_terminal import go_on_there  # only few sessions of others are gone on with from here

        return go_on_there(question.asker)
    if held:
        note("midturn: answered. The process that holds conversation {} goes on with it.", question.conversation)
        return ExitStatus.DONE
    if not given.resume:
        place = find_place(given.store)
        resuming = line("`midturn resume {}{}`", question.conversation, place.option)
        if not place.is_on_disk:
            note("midturn: answered. A worker goes on with the turn; where none runs, {} does.", resuming)
        elif place.option:  # some program's store: its tools may be functions of that program
            note("midturn: answered. The program that has the tool goes on with the turn; if it is configured here, {} does.", resuming)
        else:
            note("midturn: answered. {} goes on with the turn.", resuming)
        return ExitStatus.DONE
    note("midturn: answered.")
    return _resume(question, given)
