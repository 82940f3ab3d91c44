"""`midturn resume`: continue an open turn after its last event.

This module also asks what to do with an open turn, for example before a new message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import click
from msgspec import Struct

from midturn.agent.assembly.command_line import discard_turn
from midturn.cli.answer_submission import TURN_ENDED, VIA
from midturn.cli.asking import ask_here
from midturn.cli.command_context import CommandContext, StoreAddress, environment, find_place
from midturn.cli.loading import Flags, load_for, report_ignored
from midturn.cli.locked import ConversationLock, is_attached, without_echo
from midturn.cli.options import (
    LOCAL,
    with_conversation,
    with_non_interactive,
    with_output,
    with_store,
    without,
)
from midturn.cli.output import ExitStatus, block, line, note
from midturn.cli.turn_end import OutputFormat
from midturn.cli.turn_run import TurnRun, TurnRunner
from midturn.config.places import own_name
from midturn.errors import MidturnError, NotAllowed, NotOpen, StoreError, StoreLocked
from midturn.events.open_question import asker_of
from midturn.events.provider_view import last_user_request
from midturn.events.types import AnsweredBy, Event
from midturn.events.window import open_turn
from midturn.question.answer_type import SelectOption
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.runtime.session import was_ended_by_user
from midturn.security.authorization import require_human
from midturn.stores.ending import as_owner as owner_of
from midturn.turn.view import describe


class ResumeFlags(Struct, frozen=True, kw_only=True):
    """Arguments and options of `midturn resume`."""

    id: str | None = None
    discard: bool = False
    as_owner: bool = False
    ready: bool = False
    watch: bool = False
    non_interactive: bool = False
    store: StoreAddress | None = None
    output: OutputFormat = "text"


@click.command
@with_conversation
@click.option("--discard", is_flag=True, help="End the open turn")
@click.option(
    "--as-owner",
    is_flag=True,
    help="With --discard: also end questions for other people, as the owner of the store",
)
@click.option("--ready", is_flag=True, help="Continue every turn that is ready, without prompting")
@click.option("--watch", is_flag=True, help="With --ready: keep running")
@without("--all", "To continue every turn that is ready, use `--ready`.")
@without("--local", LOCAL)
@without(
    "--adopt",
    "Turns need no adoption. To import conversations of others, use `midturn conversation import`.",
)
@with_non_interactive
@with_store
@with_output
def command(**given: object) -> ExitStatus:
    """Continue an open turn (default: the current conversation)"""
    return run_resume(ResumeFlags(**given))  # type: ignore[arg-type]  # click has validated the fields


def run_resume(resume: ResumeFlags, *, exit_leaves_open: bool = False) -> ExitStatus:
    """Resume or discard an open turn, or resume all ready turns.

    For `exit_leaves_open`, see `cli.asking.terminal`.
    """
    _check(resume)
    require_human("continue turns")
    place = find_place(resume.store)
    if resume.ready:
        return _resume_ready(resume, place)
    with ConversationLock.existing(place, place.conversation(resume.id)) as held:
        ended = was_ended_by_user(held.events)
        if ended and not resume.discard:
            by = describe(ended.ended_by)
            note(
                "midturn: the turn of conversation {} was ended{}.",
                held.conversation,
                f" by {by}" if by else "",
            )
            return ExitStatus.ENDED_BY_USER
        if open_turn(held.events) is None:
            raise NotOpen(
                f"Conversation {held.conversation} has no open turn. To find one: `midturn"
                f" conversation ls{place.option}`"
            )
        if resume.discard:
            discard(place, held, as_owner=resume.as_owner)
            return ExitStatus.DONE
        check_is_ours(held, place.option)
        runner = _runner(
            place,
            held,
            attached=_attached(resume),
            output=resume.output,
            exit_leaves_open=exit_leaves_open,
        )
        return runner.run(held, None)


def check_is_ours(held: ConversationLock, option: str) -> None:
    """Reject a turn that belongs to another agent, because only that agent can continue it.

    `option` is the command-line option that selects the store. It is appended to the commands in
    the error message.

    Raises:
        NotOpen: The turn belongs to another agent.
    """
    window = open_turn(held.events)
    asker = asker_of(window.events) if window else None
    if asker:
        raise NotOpen(
            f"Conversation {held.conversation} belongs to {asker.name}. Only {asker.name} can"
            f" continue it. To see its questions: `midturn inbox{option}`. To end it: `midturn"
            f" resume {held.conversation} --discard{option}`"
        )


def resume_held(
    place: CommandContext,
    held: ConversationLock,
    *,
    attached: bool,
    output: OutputFormat = "text",
    again: str | None = None,
) -> ExitStatus:
    """Continue the open turn of a locked conversation with its recorded flags.

    For `again`, see `cli.turn_run.TurnRun`.
    """
    return _runner(place, held, attached=attached, output=output, again=again).run(held, None)


def _runner(
    place: CommandContext,
    held: ConversationLock,
    *,
    attached: bool,
    output: OutputFormat,
    again: str | None = None,
    exit_leaves_open: bool = False,
) -> TurnRunner:
    loaded = load_for(place, Flags(resumed=True), held.events)
    report_ignored(loaded, attached=attached)
    shaped = _is_shaped(held.events)
    run = TurnRun(
        place=place,
        loaded=loaded,
        attached=attached,
        output=output,
        shaped=shaped,
        again=again,
        exit_leaves_open=exit_leaves_open,
    )
    return TurnRunner(run)


def _is_shaped(events: Sequence[Event]) -> bool:
    """Return whether the open turn requires a response from the model that matches a schema."""
    asked = last_user_request(events)
    return asked is not None and asked.schema is not None


def discard(place: CommandContext, held: ConversationLock, *, as_owner: bool = False) -> None:
    """End an open turn as if the user had stopped it.

    Raises:
        NotAllowed: An open question in the turn is assigned to other people. The message tells the
            owner of the store how to end the turn.
    """
    who = AnsweredBy("user", via=VIA, user=own_name(environment()))
    if as_owner:
        who = owner_of(place.store.port, who)
    try:
        place.run(discard_turn(place.store, held.journal, who))
    except NotAllowed as refused:
        raise NotAllowed(f"{refused}{owner_may(place, held.conversation)}", user=who.user) from None
    note(TURN_ENDED, held.conversation)


def owner_may(place: CommandContext, conversation: str) -> str:
    """Return a sentence that tells the owner of the store how to end the turn.

    Return an empty string if this user is not the owner.
    """
    if not place.store.port.is_own:
        return ""
    command = f"midturn resume {conversation} --discard --as-owner{place.option}"
    return (
        f" As the owner of the store, you can end the turn anyway, which is recorded: `{command}`"
    )


def _check(resume: ResumeFlags) -> None:
    if resume.as_owner and not resume.discard:
        raise click.UsageError("`--as-owner` requires `--discard`.")
    if resume.watch and not resume.ready:
        raise click.UsageError("`--watch` requires `--ready`.")
    if resume.ready and (resume.id or resume.discard):
        raise click.UsageError("`--ready` cannot be combined with an ID or `--discard`.")


def _resume_ready(resume: ResumeFlags, place: CommandContext) -> ExitStatus:
    """Continue all ready turns. With `--watch`, also continue turns that become ready later, until
    Ctrl-C.

    Return the first exit status that is not 0, or 0 if there is none.
    """
    statuses: list[ExitStatus] = []
    event_counts: dict[str, int] = {}
    if resume.watch:
        note("midturn: continuing turns as their questions are answered. Press Ctrl-C to stop.")
    with without_echo() if resume.watch else nullcontext():
        for conversation in (
            _watch_ready(place, event_counts) if resume.watch else place.store.ready_sync()
        ):
            statuses.append(_resume_one(resume, place, conversation, event_counts))
            if statuses[-1] == ExitStatus.ENDED_BY_USER:
                break
    if not statuses:
        note("midturn: no turn is ready. To list open questions: `midturn inbox{}`", place.option)
    return next((status for status in statuses if status != ExitStatus.DONE), ExitStatus.DONE)


def _resume_one(
    resume: ResumeFlags, place: CommandContext, conversation: str, event_counts: dict[str, int]
) -> ExitStatus:
    note("midturn: conversation {}", conversation)
    try:
        with ConversationLock.existing(place, conversation) as held:
            runner = _runner(
                place, held, attached=False, output=resume.output
            )  # `--ready` never prompts
            status = runner.run(held, None)
            event_counts[conversation] = len(
                held.events
            )  # counted while the conversation is locked, so that later answers are detected
            return ExitStatus.ENDED_BY_USER if runner.interrupted else status
    except StoreLocked:
        note("midturn: another process is continuing it.")
        return ExitStatus.DONE
    except MidturnError as error:
        note(line("midturn: {}", block(str(error))))
        return ExitStatus.ERROR


def _watch_ready(place: CommandContext, event_counts: dict[str, int]) -> Iterator[str]:
    """Yield conversations whose turns are ready. Then wait until more turns are ready.

    A conversation is yielded again only if its number of events has changed.
    """
    while True:
        for conversation in place.store.ready_sync():
            found = len(place.store.read_sync(conversation).events)
            if event_counts.get(conversation) != found:
                event_counts[conversation] = found
                yield conversation
        place.run(place.port.wait_for_work())


def _attached(resume: ResumeFlags) -> bool:
    return is_attached(environment(), non_interactive=resume.non_interactive)


# --------------------------------------------------------------------------------------------------
# Asking what to do with an open turn


RESUME, DISCARD, QUIT = "resume", "discard", "quit"
_LEAVE = SelectOption(QUIT, "Change nothing.")
_NEW_REQUEST = (
    SelectOption(RESUME, "Continue it, then send your new message."),
    SelectOption(DISCARD, "End it, then send your new message."),
    _LEAVE,
)


class ResumeOffer(Struct, frozen=True, kw_only=True):
    """A question about what to do with an open turn. Its three options are, in this order: resume
    the turn, discard it, and leave it open.

    `again` is the chat command that continues the turn later. Default: the shell command
    `midturn resume`.
    """

    text: str = "Conversation {} has an open turn. What do you want to do with it?"
    options: Sequence[SelectOption[str]] = _NEW_REQUEST
    again: str | None = None


BEFORE_A_REQUEST = ResumeOffer()
IN_A_CHAT = ResumeOffer(again="/retry")
BEFORE_A_CHAT = ResumeOffer(
    options=(
        SelectOption(RESUME, "Continue it."),
        SelectOption(DISCARD, "End it. Your next message starts a new turn."),
        _LEAVE,
    ),
    again="/retry",
)
AFTER_A_FAILURE = ResumeOffer(
    text="The turn is not finished. Try again?",
    options=(
        SelectOption("try again", "Continue where it stopped."),
        SelectOption("end the turn", "Recorded events are kept."),
        SelectOption("leave it open", "To try again later, type `/retry`."),
    ),
    again="/retry",
)


def resolve_open_turn(
    place: CommandContext,
    held: ConversationLock,
    *,
    attached: bool,
    offer: ResumeOffer = BEFORE_A_REQUEST,
) -> ExitStatus | None:
    """Ask what to do with an open turn, and do it. Return None if a new turn can start.

    Raises:
        StoreError: A turn is open, and no person is attached to decide.
    """
    if open_turn(held.events) is None:
        return None

    check_is_ours(held, place.option)
    if not attached:
        raise StoreError(
            f"Conversation {held.conversation} has an open turn. To continue it: `midturn resume"
            f" {held.conversation}{place.option}`. To end it: `midturn resume {held.conversation}"
            f" --discard{place.option}`"
        )
    require_human("continue turns")
    match _choice(held.conversation, offer):
        case "resume":
            status = resume_held(place, held, attached=attached, again=offer.again)
            return None if status in (ExitStatus.DONE, ExitStatus.REFUSED) else status
        case "discard":
            discard(place, held)
            return None
        case _:
            return ExitStatus.DONE


def _choice(conversation: str, offer: ResumeOffer) -> str:
    values = [option.value for option in offer.options]
    reply = ask_here(
        Question.select(
            "open_turn", offer.text.format(conversation), offer.options, default=values[0]
        )
    )
    return (
        (RESUME, DISCARD, QUIT)[values.index(str(reply.value))]
        if isinstance(reply, Answered)
        else QUIT
    )
