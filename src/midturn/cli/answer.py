"""`midturn answer`: answer an open question or a whole form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, LiteralString

import click
from msgspec import Struct

from midturn.cli.answer_submission import (
    TURN_ENDED,
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
from midturn.cli.command_context import CommandContext, StoreAddress, environment, find_place
from midturn.cli.locked import is_attached
from midturn.cli.options import with_question, with_store
from midturn.cli.output import ExitStatus, Shown, line, note, presented
from midturn.cli.question_rows import answered, place_of, question_rows
from midturn.config.places import own_name
from midturn.errors import AnswerError, DigestMismatch, NotAllowed, NotOpen, Problem
from midturn.events.open_question import (
    SHORT_DIGEST,
    AskingAgent,
    OpenQuestion,
    holds_secret,
    parse_address,
)
from midturn.events.types import AnsweredBy
from midturn.question.json_value import shown
from midturn.question.people import Directory
from midturn.question.reply import Deferred, EndedTurn
from midturn.security.authorization import require_human
from midturn.stores.answer_service import Receipt, too_late
from midturn.stores.port import LockedBy

if TYPE_CHECKING:
    from midturn.config.settings import Settings

# --------------------------------------------------------------------------------------------------
# Finding a question by its ID or a prefix of it


_MAX_LISTED = 5
_DIGEST = r"[0-9a-fA-F]{8,64}"


def find_question(place: CommandContext, typed: str) -> OpenQuestion:
    """Return the open question with this ID.

    `typed` may be a unique prefix of the ID, or of the part of the ID after the dash.

    Raises:
        AlreadyAnswered: `typed` is a complete ID, and the question was answered. The error names
            the responder.
        NotOpen: No question matches, or several do.
    """
    at, store = parse_address(typed), place.store
    open_now = store.pending_sync(at.conversation if at else None)
    fitting = [
        question
        for question in open_now
        if typed and (question.id.startswith(typed) or _event(question).startswith(typed))
    ]
    exact = [question for question in fitting if typed in (question.id, _event(question))]
    found = exact if len(exact) == 1 else fitting
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(
            [
                *(question.id for question in found[:_MAX_LISTED]),
                *(["…"] if len(found) > _MAX_LISTED else []),
            ]
        )
        raise NotOpen(
            f"{shown(typed)} matches {len(found)} questions: {listed}. Use the part after the dash,"
            " or a longer prefix."
        )
    if at:
        raise store.run_sync("read", too_late(store.port, at))
    raise NotOpen(
        f"No open question {shown(typed)}. Run `midturn inbox{place.option}` to list open"
        " questions."
    )


def _event(question: OpenQuestion) -> str:
    return question.request.event_id


# --------------------------------------------------------------------------------------------------
# The command


class SubmissionFlags(Struct, frozen=True, kw_only=True):
    """Arguments and options of `midturn answer`."""

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
@click.argument("more", nargs=-1, metavar="[ID... VALUE]")
@click.option("--other", metavar="TEXT", help="Answer in your own words, if the question allows it")
@click.option("--reason", metavar="TEXT", help="Reason, recorded with the answer")
@click.option("--reply", metavar="TEXT", help="Message to the model instead of an answer")
@click.option("--cancel", is_flag=True, help="End the turn")
@click.option(
    "--pass-to", multiple=True, metavar="NAME", help="Reassign to a person or group (repeatable)"
)
@click.option(
    "--digest",
    metavar="DIGEST",
    default="",
    help="Digest of the call to approve (at least 8 characters)",
)
@click.option("--take-back", is_flag=True, help="Withdraw your vote while others are still needed")
@click.option("--resume", is_flag=True, help="Continue the turn afterwards")
@with_store
def command(**given: object) -> ExitStatus:
    """Answer an open question

    ID is a question ID or a unique prefix. VALUE is an option or its number, JSON that is valid for
    the question, or text. For a form, pass an object by question ID. For an approval, pass y, n or
    {"edit": {...}}; some approvals also accept always and never. Without VALUE, midturn asks at the
    terminal.

    Several IDs followed by one VALUE answer each question with it, after showing all of them.
    """
    return run_answer(SubmissionFlags(**given))  # type: ignore[arg-type]  # click has validated the fields


def run_answer(given: SubmissionFlags) -> ExitStatus:
    """Answer a question, and continue its turn if requested."""
    _check(given)
    require_human("answer questions")
    place = find_place(given.store)
    if given.more:
        return _answer_several(place, given)
    question = find_question(place, given.id)
    if given.pass_to or given.take_back:
        return _add_note(place, question, given)
    if given.value is None and given.other is None and given.reply is None and not given.cancel:
        return _at_the_terminal(place, question, given)
    submitting = Submitting(place.store, question, _who(), given.reason, given.digest)
    if given.cancel:
        try:
            submitting.cancel()
        except NotAllowed as refused:
            from midturn.cli.resume import owner_may  # imported only for this rare case

            raise NotAllowed(
                f"{refused}{owner_may(place, question.conversation)}",
                id=question.id,
                user=refused.user,
            ) from None
        note(TURN_ENDED, question.conversation)
        return ExitStatus.DONE
    if given.reply is not None:
        receipt = submitting.reply(given.reply)
        note("{}  (reply) {}", question.question.text, given.reply)
        return _continue_turn(question, given, held=receipt.held)
    if holds_secret(question) and question.kind == "tool" and question.form is None:
        raise click.UsageError(
            f"Secrets cannot be passed as VALUE. Run `midturn answer {question.id}{place.option}`"
            " at a terminal."
        )
    value = (
        TypedValue(own_words(question, given.other))
        if given.other is not None
        else read_value(question, given.value or "")
    )
    check_edit(place, question, value)
    if isinstance(value, TypedEdit) and given.reason is not None:
        raise click.UsageError("`--reason` cannot be combined with an edit, only with yes or no.")
    receipt = _confirmed(place, question, lambda: submitting.value(value))
    _show_recorded(question, value)
    return _finish(question, given, receipt)


def _confirmed(
    place: CommandContext, question: OpenQuestion, submit: Callable[[], Receipt]
) -> Receipt:
    """Submit an answer.

    If an approval requires the digest of the displayed version, show the current version and the
    command that approves it.

    Raises:
        AnswerError: The digest is missing or outdated. Nothing was recorded.
    """
    try:
        return submit()
    except DigestMismatch as error:
        current = next(
            (
                other
                for other in place.store.pending_sync(question.conversation)
                if other.id == question.id
            ),
            question,
        )
        for left, right in question_rows(current, sys.stderr):
            note("{}  {}", left, right)
        message = (
            "Nothing was recorded. Others can edit this or vote on it, so an approval must name"
            " the version that you saw. The current version is shown above. To approve it:"
            f" `midturn answer {current.id} yes --digest"
            f" {error.digest[:SHORT_DIGEST]}{place.option}`."
        )
        raise AnswerError([Problem("", message)]) from None


def _finish(question: OpenQuestion, given: SubmissionFlags, receipt: Receipt) -> ExitStatus:
    """Continue the turn if the question is closed.

    Otherwise report why it is open: an edit must be checked first, or votes are missing.
    """
    if receipt.proposed:
        return _proposed(question, given, receipt)
    if not receipt.votes:
        return _continue_turn(question, given, held=receipt.held)
    withdrawing = line(
        "`midturn answer {} --take-back{}`", question.id, find_place(given.store).option
    )
    note(
        "midturn: {} approvals so far; another person must approve. To withdraw yours: {}",
        receipt.votes,
        withdrawing,
    )
    return ExitStatus.DONE


def _proposed(question: OpenQuestion, given: SubmissionFlags, receipt: Receipt) -> ExitStatus:
    """Report what happens to an edit that was recorded but is not decided yet."""
    option = find_place(given.store).option
    if receipt.held or question.asker:
        note(
            "midturn: the edit is recorded, but others must approve it. Run `midturn inbox{}` to"
            " show the question.",
            option,
        )
        return ExitStatus.DONE
    if given.resume:
        return _resume(question, given)
    resuming = line("`midturn resume {}{}`", question.conversation, option)
    note(
        "midturn: the edit is recorded; rules are applied to it when the turn continues. To"
        " continue the turn: {}",
        resuming,
    )
    return ExitStatus.DONE


def _add_note(place: CommandContext, question: OpenQuestion, given: SubmissionFlags) -> ExitStatus:
    """Reassign a question, or withdraw a vote."""
    user = _who().user
    if given.take_back:
        place.store.withdraw_vote_sync(question.id, user=user, via=VIA)
        note("midturn: withdrew your vote on {}", question.question.text)
    else:
        known = load_directory()
        unknown = [name for name in given.pass_to if known.people and not known.knows(name)]
        if unknown:
            raise click.UsageError(
                f"No person or group is named {shown(unknown[0])} in the configuration."
            )
        place.store.reassign_sync(
            question.id, given.pass_to, reason=given.reason, user=user, via=VIA
        )
        note("midturn: reassigned {} to {}.", question.question.text, ", ".join(given.pass_to))
    return ExitStatus.DONE


def load_directory() -> Directory:
    """Return the people and groups in the configuration."""
    return _settings().directory


def _settings() -> Settings:
    from midturn.cli.loading import load_here  # imported lazily: few answers need the configuration

    return load_here().settings


def _answer_several(place: CommandContext, given: SubmissionFlags) -> ExitStatus:
    """Answer several questions with the same value, after showing all of them.

    If the value is invalid for one of the questions, none is answered.
    """
    *more, words = given.more
    ids = [given.id, given.value or "", *more]
    questions = [find_question(place, typed_id) for typed_id in ids]
    typed: list[Typed] = []
    for question in questions:
        if holds_secret(question):
            raise click.UsageError(
                f"{question.id} asks for a secret. Answer it separately, at a terminal."
            )
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
    return AnsweredBy("user", via=VIA, user=own_name(environment()))


def _show_recorded(question: OpenQuestion, value: Typed) -> None:
    """Print the recorded answers. For a form, also print whether questions remain."""
    for row in answered(as_edited(question, value), sys.stderr):
        note(row)
    rows = recorded_rows(question, value)
    for asked, answer in rows:
        note("{}  {}", asked, presented(answer))
    place = place_of(question)
    if question.form and len(rows) == 1 and place < question.form.total:
        note(
            "midturn: this was question {} of {} in a form. The rest is asked when the turn"
            " continues.",
            place,
            question.form.total,
        )


def _answered_message(asker: AskingAgent) -> Shown:
    if asker.waits and asker.keeps_dialog:
        return line(
            "midturn: answered. {} continues when its own dialog, if open, is closed.", asker.name
        )
    if asker.waits:
        return line("midturn: answered. {} continues.", asker.name)
    if asker.cancelled:
        return line(
            "midturn: answered and stored. {} cancelled its call and gets the answer when it"
            " asks again.",
            asker.name,
        )
    if asker.ends:
        return line(
            "midturn: recorded. The hook of {} has ended, so its own dialog decides and the answer"
            " is not delivered.",
            asker.name,
        )
    return line("midturn: answered and stored. {}", line(_delivery_message(asker), asker.name))


def _delivery_message(asker: AskingAgent) -> LiteralString:
    """Return a sentence about when the agent receives the answer.

    Used if no process of the agent is waiting for the answer.
    """
    if asker.defers:
        return "{} ended at this call and gets the answer when it is resumed."
    if asker.left and asker.process:
        return (
            "{} has continued. It gets the answer before its session ends, or if its next call is"
            " the same."
        )
    if asker.via == "mcp":
        return "The process of {} has ended; its model gets the answer with `check_answer`."
    return (
        "The process of {} has ended; it gets the answer if its session continues with this call."
    )


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
        raise click.UsageError(f"Use only one of {' and '.join(named)}.")
    if given.digest and (named != ["a VALUE"] or given.more):
        raise click.UsageError("`--digest` requires exactly one ID and one VALUE.")
    if given.digest and not re.fullmatch(_DIGEST, given.digest):
        raise click.UsageError(
            f"Invalid `--digest` {given.digest!r:.80}. Expected 8 to 64 characters (0-9, a-f). "
            f"To see the digest: `midturn inbox{find_place(given.store).option}`"
        )
    if given.more and (len(named) > 1 or given.resume):
        raise click.UsageError("Several IDs must be followed by one VALUE, without other options.")
    if given.reason is not None and named not in ([], ["a VALUE"], ["--other"], ["--pass-to"]):
        raise click.UsageError(f"`--reason` cannot be combined with {named[0]}.")


def _at_the_terminal(
    place: CommandContext, question: OpenQuestion, given: SubmissionFlags
) -> ExitStatus:
    if not is_attached(environment(), non_interactive=False):
        if holds_secret(question):
            raise click.UsageError(
                "The answer is a secret, and there is no terminal. Run `midturn answer"
                f" {question.id}{place.option}` at a terminal. A VALUE would stay in the history of"
                " your shell, so it is not accepted."
            )
        raise click.UsageError(
            f"No terminal is available. Pass a VALUE: `midturn answer {question.id}"
            f" VALUE{place.option}`."
        )
    if holds_secret(question):
        return _in_place(question, given, "a secret is passed to its tool directly")
    from midturn.cli.answer_terminal import answer_here

    held = isinstance(place.run(place.port.look(question.conversation)), LockedBy)
    last = answer_here(place, question, _settings(), _who(), given.reason)
    if isinstance(last.reply, Deferred):
        return _left_open(place, question, last.prompt.event if last.prompt else "")
    if isinstance(last.reply, EndedTurn):
        note(TURN_ENDED, question.conversation)
        return ExitStatus.ENDED_BY_USER
    still = next(
        (
            other
            for other in place.store.pending_sync(question.conversation)
            if other.id == question.id
        ),
        None,
    )
    votes = still.whose.tally if still and still.whose else ""
    is_unchecked = still is not None and still.edit is not None and not still.edit.is_checked
    return _finish(
        question,
        given,
        Receipt(question.conversation, question.id, held, votes, proposed=is_unchecked),
    )


def _left_open(place: CommandContext, question: OpenQuestion, event: str) -> ExitStatus:
    """Tell the user how to return to a question that stays open, or to the remaining questions of a
    form.
    """
    still = next(
        (
            other
            for other in place.store.pending_sync(question.conversation)
            if other.request.event_id == event
        ),
        None,
    )
    if still is not None:
        command = line("`midturn answer {}{}`", still.id, place.option)
        note("midturn: the question stays open. To answer it later: {}", command)
    else:
        resuming = line("`midturn resume {}{}`", question.conversation, place.option)
        note(
            "midturn: your answers so far are recorded. The rest of the form is asked when the turn"
            " continues: {}",
            resuming,
        )
    return ExitStatus.SUSPENDED


def _in_place(question: OpenQuestion, given: SubmissionFlags, why: str) -> ExitStatus:
    """Continue the turn in this process, because a secret is passed to its tool and not stored."""
    note("midturn: {}, so the turn continues in this process.", why)
    return _resume(question, given, exit_leaves_open=True)


def _resume(
    question: OpenQuestion, given: SubmissionFlags, *, exit_leaves_open: bool = False
) -> ExitStatus:
    from midturn.cli.resume import (
        ResumeFlags,
        run_resume,
    )  # imported lazily, because usually another process continues the turn

    return run_resume(
        ResumeFlags(id=question.conversation, store=given.store), exit_leaves_open=exit_leaves_open
    )


def _continue_turn(question: OpenQuestion, given: SubmissionFlags, *, held: bool) -> ExitStatus:
    if question.asker:
        note(_answered_message(question.asker))
        if not given.resume or question.asker.waits or question.asker.cancelled:
            return ExitStatus.DONE
        from midturn.cli.answer_terminal import resume_session  # imported only for this rare case

        return resume_session(question.asker)
    if held:
        note(
            "midturn: answered. The process that runs conversation {} continues it.",
            question.conversation,
        )
        return ExitStatus.DONE
    if not given.resume:
        place = find_place(given.store)
        resuming = line("`midturn resume {}{}`", question.conversation, place.option)
        if place.option:  # the store may belong to a program that defines the tool
            note(
                "midturn: answered. The program that defines the tool continues the turn. If the"
                " tool is configured in this workspace: {}",
                resuming,
            )
        else:
            note("midturn: answered. To continue the turn: {}", resuming)
        return ExitStatus.DONE
    note("midturn: answered.")
    return _resume(question, given)
