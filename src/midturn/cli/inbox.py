"""`midturn inbox`: the open questions of all conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midturn.cli.command_context import Place, StoreAddress, environment, every_place, find_place
from midturn.cli.options import with_json, with_store
from midturn.cli.output import ExitStatus, note, say, say_json, say_line
from midturn.config.places import own_name, shown
from midturn.errors import StoreError

if TYPE_CHECKING:
    from midturn.events.open_question import OpenQuestion
    from midturn.stores.watching import StoreChange


@click.command
@click.option("--watch", is_flag=True, help="Stay, and show what is asked and answered from now on.")
@click.option("--all", "everywhere", is_flag=True, help="In every workspace that you have used, and what other programs put there.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List the first N only: those of the oldest conversations.")
@click.option("--mine", is_flag=True, help="Those that are put to you, by name or by a group of yours.")
@with_json
@with_store
def command(*, watch: bool, everywhere: bool, limit: int | None, mine: bool, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """List the open questions: who asks, what, since when, in which conversation."""
    place = find_place(store)
    if mine and (watch or everywhere or limit):
        raise click.UsageError("`--mine` lists what is put to you here: leave out `--watch`, `--all` and `--limit`.")
    if watch and limit:
        raise click.UsageError("`--watch` shows all questions: leave out `--limit`.")
    if everywhere and (watch or store) and place.is_on_disk:  # a database has no list that could lack any
        place.files.turns.reindex()
    if watch:
        _watch(place, _say_as_json if as_json else _in_words(place))
    elif everywhere and store is None:
        waiting = _everywhere(place, limit)
        if as_json:
            say_json([{**question.to_json(), "workspace": there.directory} for there, questions in waiting for question in questions])
        else:
            _say_everywhere(waiting)
    else:
        questions = [] if place.is_quiet() else _grouped(place.store.pending_sync(limit=limit and limit + 1))
        if mine:
            user = own_name(environment())
            questions = [question for question in questions if question.whose and question.whose.is_for(user)]
        if as_json:
            say_json([question.to_json() for question in questions[:limit]])
        else:
            _say_here(place, questions[:limit])
            if len(questions) > len(questions[:limit]):
                note("More questions wait: raise `--limit`, or leave it out, to see them.")
    return ExitStatus.DONE


def _say_here(place: Place, questions: Sequence[OpenQuestion]) -> None:
    if questions:
        _say_questions(place, questions)
        note("Answer one with `midturn answer ID [VALUE]{}`; the beginning of an ID will do.", place.option)
    else:
        say("Nothing waits for an answer.")


def _say_questions(place: Place, questions: Sequence[OpenQuestion]) -> None:
    from midturn.cli.question_rows import inbox_rows  # most looks find nothing

    for row in inbox_rows(place, questions):
        say(row)


def _everywhere(here: Place, limit: int | None) -> Sequence[tuple[Place, Sequence[OpenQuestion]]]:
    """Return the questions of every workspace that was used, and of the user's own store; those of this place come first."""
    found = [(place, _grouped(place.store.pending_sync(limit=limit))) for place in _places(here)]
    return [(place, questions) for place, questions in found if questions]


def _say_everywhere(waiting: Sequence[tuple[Place, Sequence[OpenQuestion]]]) -> None:
    for place, questions in waiting:
        say("In {}:", shown(Path(place.directory)) if place.directory else "no workspace")
        _say_questions(place, questions)
    if waiting:
        note("Answer one in its directory with `midturn answer ID [VALUE]`; the beginning of an ID will do.")
    else:
        say("Nothing waits for an answer in any workspace.")


def _places(here: Place) -> list[Place]:
    """Return where questions may wait; what other programs have put there is found, too."""
    places = every_place(here)
    for place in places:
        with suppress(OSError, StoreError):
            place.files.turns.reindex()
    return places


def _watch(place: Place, show: Callable[[StoreChange], None]) -> None:
    """Show what happens, until Ctrl-C."""
    from midturn.cli.locked import without_echo  # a look is over before anything is typed

    with suppress(KeyboardInterrupt), without_echo():
        for change in place.store.watch_sync():
            show(change)


def _say_as_json(change: StoreChange) -> None:
    say_line(change.to_json())


def _in_words(place: Place) -> Callable[[StoreChange], None]:
    """Say what is going to be shown; return what shows it."""
    from midturn.cli.question_rows import news

    note("midturn: showing what is asked and answered. Ctrl-C ends this.")
    asked: dict[str, OpenQuestion] = {}

    def show(change: StoreChange) -> None:
        if change.question:
            asked[change.id] = change.question
        for row in news(place, change, asked.get(change.id)):
            say(row)

    return show


def _grouped(questions: list[OpenQuestion]) -> list[OpenQuestion]:
    """Keep what one session of another agent asks together, where its first question stands."""
    order: dict[tuple[str, str, str], int] = {}
    for place, question in enumerate(questions):
        order.setdefault(_session(question, place), place)
    return [question for _, question in sorted(enumerate(questions), key=lambda each: (order[_session(each[1], each[0])], each[0]))]


def _session(question: OpenQuestion, place: int) -> tuple[str, str, str]:
    asker = question.asker
    return (asker.agent, asker.name, asker.session) if asker and asker.session else ("", "", str(place))
