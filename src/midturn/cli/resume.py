"""Going on with an open turn, exactly where its events end: `midturn resume`, and the choice where something new is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import click
from msgspec import Struct

from midturn.agent.assembly.command_line import discard_turn
from midturn.cli.answer_submission import VIA
from midturn.cli.asking import ask_here
from midturn.cli.command_context import Place, StoreAddress, environment, find_place
from midturn.cli.loading import Flags, load_for, report_ignored
from midturn.cli.locked import Held, is_attached, without_echo
from midturn.cli.options import LOCAL, with_conversation, with_non_interactive, with_output, with_store, without
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
from midturn.runtime.driver import was_ended_by_user
from midturn.security.authorization import for_people_only
from midturn.stores.ending import as_owner as owner_of
from midturn.turn.view import describe


class ResumeFlags(Struct, frozen=True, kw_only=True):
    """Flags of the command line."""

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
@click.option("--discard", is_flag=True, help="End the open turn instead.")
@click.option("--as-owner", is_flag=True, help="With --discard: end also what is for others to decide, as the owner of the store.")
@click.option("--ready", is_flag=True, help="Go on with every turn that can, and ask no one.")
@click.option("--watch", is_flag=True, help="With --ready: stay, and go on with turns as they are answered.")
@without("--all", "It belonged to `--adopt`, which is gone, too. `--ready` goes on with every turn that can.")
@without("--local", LOCAL)
@without("--adopt", "Turns are not adopted any more: what lies in your own store is yours. `midturn conversation import` takes in others.")
@with_non_interactive
@with_store
@with_output
def command(**given: object) -> ExitStatus:
    """Go on with the open turn of conversation ID (by default the current one)."""
    return run_resume(ResumeFlags(**given))  # type: ignore[arg-type]  # click has checked every field


def run_resume(resume: ResumeFlags, *, exit_leaves_open: bool = False) -> ExitStatus:
    """Resume or discard an open turn, or resume all that are ready; `exit_leaves_open` as in `terminal`."""
    _check(resume)
    for_people_only("go on with turns")
    place = find_place(resume.store)
    if resume.ready:
        return _resume_ready(resume, place)
    with Held.existing(place, place.conversation(resume.id)) as held:
        ended = was_ended_by_user(held.events)
        if ended and not resume.discard:
            by = describe(ended.ended_by)
            note("midturn: the turn of conversation {} was ended{}.", held.conversation, f" by {by}" if by else "")
            return ExitStatus.ENDED_BY_USER
        if open_turn(held.events) is None:
            raise NotOpen(
                f"Conversation {held.conversation} has no open turn. `midturn conversation ls{place.option}` shows which ones have."
            )
        if resume.discard:
            discard(place, held, as_owner=resume.as_owner)
            return ExitStatus.DONE
        check_is_ours(held, place.option)
        runner = _runner(place, held, attached=_attached(resume), output=resume.output, exit_leaves_open=exit_leaves_open)
        return runner.run(held, None)


def check_is_ours(held: Held, option: str) -> None:
    """Refuse a turn of another agent, which only that agent can continue. `option` is added to the commands that the error advises.

    Raises:
        NotOpen: It is such a turn.
    """
    window = open_turn(held.events)
    asker = asker_of(window.events) if window else None
    if asker:
        raise NotOpen(
            f"Conversation {held.conversation} is a call of {asker.name}, and goes on there. `midturn inbox{option}` shows what it asks; "
            f"`midturn resume {held.conversation} --discard{option}` ends it."
        )


def resume_held(place: Place, held: Held, *, attached: bool, output: OutputFormat = "text", again: str | None = None) -> ExitStatus:
    """Go on with the open turn of a conversation, under what was set for it; `again` as in `TurnRun`."""
    return _runner(place, held, attached=attached, output=output, again=again).run(held, None)


def _runner(
    place: Place, held: Held, *, attached: bool, output: OutputFormat, again: str | None = None, exit_leaves_open: bool = False
) -> TurnRunner:
    loaded = load_for(place, Flags(resumed=True), held.events)
    report_ignored(loaded, attached=attached)
    shaped = _is_shaped(held.events)
    run = TurnRun(
        place=place, loaded=loaded, attached=attached, output=output, shaped=shaped, again=again, exit_leaves_open=exit_leaves_open
    )
    return TurnRunner(run)


def _is_shaped(events: Sequence[Event]) -> bool:
    """Say whether the open turn asked for an answer of a certain shape."""
    asked = last_user_request(events)
    return asked is not None and asked.schema is not None


def discard(place: Place, held: Held, *, as_owner: bool = False) -> None:
    """End an open turn as if the user had stopped it.

    Raises:
        NotAllowed: A question is open in it that is for others to decide; it says how the owner of the store ends it.
    """
    who = AnsweredBy("user", via=VIA, user=own_name(environment()))
    if as_owner:
        who = owner_of(place.store.port, who)
    try:
        place.run(discard_turn(place.store, held.journal, who))
    except NotAllowed as refused:
        raise NotAllowed(f"{refused}{owner_may(place, held.conversation)}", user=who.user) from None
    note("midturn: the open turn of conversation {} was ended.", held.conversation)


def owner_may(place: Place, conversation: str) -> str:
    """Say how the owner of a store ends what is for others to decide; empty where this user does not own it."""
    if not place.store.port.is_own:
        return ""
    command = f"midturn resume {conversation} --discard --as-owner{place.option}"
    return f" This store is yours: `{command}` ends the turn all the same, and the record says so."


def _check(resume: ResumeFlags) -> None:
    if resume.as_owner and not resume.discard:
        raise click.UsageError("`--as-owner` is for `--discard`: as the owner of the store you end a turn, and decide nothing in it.")
    if resume.watch and not resume.ready:
        raise click.UsageError("`--watch` stays for turns that become ready: use it with `--ready`.")
    if resume.ready and (resume.id or resume.discard):
        raise click.UsageError("`--ready` goes on with every turn that is ready: give neither an ID nor `--discard`.")


def _resume_ready(resume: ResumeFlags, place: Place) -> ExitStatus:
    """Go on with turns that are ready, until Ctrl-C; the first status that is not 0 is the status of all."""
    statuses: list[ExitStatus] = []
    left: dict[str, int] = {}
    if resume.watch:
        note("midturn: going on with every turn as its questions are answered. Ctrl-C ends this.")
    with without_echo() if resume.watch else nullcontext():
        for conversation in _ready_from_now_on(place, left) if resume.watch else place.store.ready_sync():
            statuses.append(_resume_one(resume, place, conversation, left))
            if statuses[-1] == ExitStatus.ENDED_BY_USER:
                break
    if not statuses:
        note("midturn: no turn is ready. `midturn inbox{}` lists what waits for an answer.", place.option)
    return next((status for status in statuses if status != ExitStatus.DONE), ExitStatus.DONE)


def _resume_one(resume: ResumeFlags, place: Place, conversation: str, left: dict[str, int]) -> ExitStatus:
    note("midturn: conversation {}", conversation)
    try:
        with Held.existing(place, conversation) as held:
            runner = _runner(place, held, attached=False, output=resume.output)  # `--ready` asks no one
            status = runner.run(held, None)
            left[conversation] = len(held.events)  # while it is held: an answer that comes right after is news
            return ExitStatus.ENDED_BY_USER if runner.interrupted else status
    except StoreLocked:
        note("midturn: another process goes on with it.")
        return ExitStatus.DONE
    except MidturnError as error:
        note(line("midturn: {}", block(str(error))))
        return ExitStatus.ERROR


def _ready_from_now_on(place: Place, left: dict[str, int]) -> Iterator[str]:
    """Yield what is ready, without end, but no turn twice in the state in which it was left: `left` counts its events then."""
    while True:
        for conversation in place.store.ready_sync():
            found = len(place.store.read_sync(conversation).events)
            if left.get(conversation) != found:
                left[conversation] = found
                yield conversation
        place.run(place.port.woken())


def _attached(resume: ResumeFlags) -> bool:
    return is_attached(environment(), non_interactive=resume.non_interactive)


# ----------------------------------------------------------------------------------------------------------------------
# A turn that is open when something new is said: resumed, discarded, or left


RESUME, DISCARD, QUIT = "resume", "discard", "quit"
_LEAVE = SelectOption(QUIT, "Leave everything as it is.")
_NEW_REQUEST = (
    SelectOption(RESUME, "Go on with it; your new request comes after it."),
    SelectOption(DISCARD, "End it; your new request comes next."),
    _LEAVE,
)


class Offer(Struct, frozen=True, kw_only=True):
    """The question about an open turn; its options, to resume, to discard and to leave it, say what each means for what comes next.

    `again` is what the user types later to go on with the turn, where that is no command of a shell.
    """

    text: str = "Conversation {} has an open turn. What about it?"
    options: Sequence[SelectOption[str]] = _NEW_REQUEST
    again: str | None = None


BEFORE_A_REQUEST = Offer()
IN_A_CHAT = Offer(again="/retry")
BEFORE_A_CHAT = Offer(
    options=(
        SelectOption(RESUME, "Go on with it."),
        SelectOption(DISCARD, "End it; what you say next begins a new turn."),
        _LEAVE,
    ),
    again="/retry",
)
AFTER_A_FAILURE = Offer(
    text="The turn is not finished. Try again?",
    options=(
        SelectOption("try again", "From where it stopped."),
        SelectOption("end the turn", "What is on record stays."),
        SelectOption("leave it open", "`/retry` tries again later."),
    ),
    again="/retry",
)


def resolve_open_turn(place: Place, held: Held, *, attached: bool, offer: Offer = BEFORE_A_REQUEST) -> ExitStatus | None:
    """Deal with an open turn; None where the new turn may begin.

    Raises:
        StoreError: No one is there to decide.
    """
    if open_turn(held.events) is None:
        return None

    check_is_ours(held, place.option)
    if not attached:
        raise StoreError(
            f"Conversation {held.conversation} has an open turn. `midturn resume {held.conversation}{place.option}` goes on with it, "
            f"`midturn resume {held.conversation} --discard{place.option}` ends it."
        )
    for_people_only("go on with turns")
    match _choice(held.conversation, offer):
        case "resume":
            status = resume_held(place, held, attached=attached, again=offer.again)
            return None if status in (ExitStatus.DONE, ExitStatus.REFUSED) else status
        case "discard":
            discard(place, held)
            return None
        case _:
            return ExitStatus.DONE


def _choice(conversation: str, offer: Offer) -> str:
    values = [option.value for option in offer.options]
    reply = ask_here(Question.select("open_turn", offer.text.format(conversation), offer.options, default=values[0]))
    return (RESUME, DISCARD, QUIT)[values.index(str(reply.value))] if isinstance(reply, Answered) else QUIT
