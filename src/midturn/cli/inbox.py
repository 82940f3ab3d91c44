"""`midturn inbox`: list the open questions of all conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midturn.cli.command_context import (
    CommandContext,
    StoreAddress,
    environment,
    every_place,
    find_place,
)
from midturn.cli.options import with_json, with_store
from midturn.cli.output import ExitStatus, note, say, say_json, say_line
from midturn.config.places import own_name, shown
from midturn.errors import StoreError

if TYPE_CHECKING:
    from midturn.events.open_question import OpenQuestion
    from midturn.stores.watching import StoreChange


@click.command
@click.option("--watch", is_flag=True, help="Keep running and show changes")
@click.option(
    "--all",
    "everywhere",
    is_flag=True,
    help="Include all workspaces and questions from other programs",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of questions, oldest conversations first",
)
@click.option("--mine", is_flag=True, help="Only questions assigned to you or to your groups")
@with_json
@with_store
def command(
    *,
    watch: bool,
    everywhere: bool,
    limit: int | None,
    mine: bool,
    as_json: bool,
    store: StoreAddress | None,
) -> ExitStatus:
    """List open questions"""
    place = find_place(store)
    if mine and (watch or everywhere or limit):
        raise click.UsageError("`--mine` cannot be combined with `--watch`, `--all` or `--limit`.")
    if watch and limit:
        raise click.UsageError("`--watch` cannot be combined with `--limit`.")
    if (
        everywhere and (watch or store) and place.is_on_disk
    ):  # the index of a database is always complete
        place.files.turns.reindex()
    if watch:
        _watch(place, _say_as_json if as_json else _text_renderer(place))
    elif everywhere and store is None:
        waiting = _everywhere(place, limit)
        if as_json:
            say_json(
                [
                    {**question.to_json(), "workspace": other.directory}
                    for other, questions in waiting
                    for question in questions
                ]
            )
        else:
            _say_everywhere(waiting)
    else:
        questions = (
            []
            if place.is_quiet()
            else _grouped(place.store.pending_sync(limit=limit and limit + 1))
        )
        if mine:
            user = own_name(environment())
            questions = [
                question for question in questions if question.whose and question.whose.is_for(user)
            ]
        if as_json:
            say_json([question.to_json() for question in questions[:limit]])
        else:
            _say_here(place, questions[:limit])
            if len(questions) > len(questions[:limit]):
                note("More questions are open. To see them, raise or omit `--limit`.")
    return ExitStatus.DONE


def _say_here(place: CommandContext, questions: Sequence[OpenQuestion]) -> None:
    if questions:
        _say_questions(place, questions)
        note(
            "To answer: `midturn answer ID [VALUE]{}`. A unique prefix of the ID is enough.",
            place.option,
        )
    else:
        say("No open questions.")


def _say_questions(place: CommandContext, questions: Sequence[OpenQuestion]) -> None:
    from midturn.cli.question_rows import inbox_rows  # imported lazily: usually not needed

    for row in inbox_rows(place, questions):
        say(row)


def _everywhere(
    here: CommandContext, limit: int | None
) -> Sequence[tuple[CommandContext, Sequence[OpenQuestion]]]:
    """Return the questions of every known workspace and of the user's own store.

    The questions of the current workspace come first.
    """
    found = [(place, _grouped(place.store.pending_sync(limit=limit))) for place in _places(here)]
    return [(place, questions) for place, questions in found if questions]


def _say_everywhere(waiting: Sequence[tuple[CommandContext, Sequence[OpenQuestion]]]) -> None:
    for place, questions in waiting:
        say("In {}:", shown(Path(place.directory)) if place.directory else "no workspace")
        _say_questions(place, questions)
    if waiting:
        note(
            "To answer, run this in the directory of the question: `midturn answer ID [VALUE]`. A"
            " unique prefix of the ID is enough."
        )
    else:
        say("No open questions in any workspace.")


def _places(here: CommandContext) -> list[CommandContext]:
    """Return all known places, after updating their indexes for questions from other programs."""
    places = every_place(here)
    for place in places:
        with suppress(OSError, StoreError):
            place.files.turns.reindex()
    return places


def _watch(place: CommandContext, show: Callable[[StoreChange], None]) -> None:
    """Show changes until Ctrl-C."""
    from midturn.cli.locked import without_echo  # imported lazily: not needed for a listing

    with suppress(KeyboardInterrupt), without_echo():
        for change in place.store.watch_sync():
            show(change)


def _say_as_json(change: StoreChange) -> None:
    say_line(change.to_json())


def _text_renderer(place: CommandContext) -> Callable[[StoreChange], None]:
    """Print a heading and return the function that prints a change as text."""
    from midturn.cli.question_rows import news

    note("midturn: showing new questions and answers. Press Ctrl-C to stop.")
    asked: dict[str, OpenQuestion] = {}

    def show(change: StoreChange) -> None:
        if change.question:
            asked[change.id] = change.question
        for row in news(place, change, asked.get(change.id)):
            say(row)

    return show


def _grouped(questions: list[OpenQuestion]) -> list[OpenQuestion]:
    """Group the questions from one session of an external agent, at the position of the first
    question.
    """
    order: dict[tuple[str, str, str], int] = {}
    for index, question in enumerate(questions):
        order.setdefault(_session(question, index), index)
    return [
        question
        for _, question in sorted(
            enumerate(questions), key=lambda item: (order[_session(item[1], item[0])], item[0])
        )
    ]


def _session(question: OpenQuestion, index: int) -> tuple[str, str, str]:
    asker = question.asker
    return (
        (asker.agent, asker.name, asker.session)
        if asker and asker.session
        else ("", "", str(index))
    )
