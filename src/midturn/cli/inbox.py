"""`midturn inbox`: the open questions of all conversations."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import moment, table
from midturn.cli.options import with_json, with_store
from midturn.cli.output import note, say, say_json, say_line
from midturn.cli.place import Place, find_place
from midturn.cli.shown import Shown, line
from midturn.core.asker import Asker
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SelectType
from midturn.core.stream import OpenQuestion
from midturn.store.watching import StoreChange

_MOST_OPTIONS = 9
_LONGEST = 300  # characters of a call that is shown in a list


@click.command
@click.option("--watch", is_flag=True, help="Stay, and show what is asked and answered from now on.")
@click.option("--all", "look_at_all", is_flag=True, help="Look at every conversation, also at those that other programs put there.")
@with_json
@with_store
def command(*, watch: bool, look_at_all: bool, as_json: bool, store: Path | None) -> ExitStatus:
    """List the open questions: who asks, what, since when, in which conversation."""
    place = find_place(store)
    if look_at_all:
        place.files.reindex()
    return _watch(place, as_json=as_json) if watch else _list(place, as_json=as_json)


def _list(place: Place, *, as_json: bool) -> ExitStatus:
    questions = _grouped(place.store.pending_sync())
    if as_json:
        say_json([question.to_json() for question in questions])
        return ExitStatus.DONE
    for row in table([row for question in questions for row in _rows(question)]):
        say(row)
    if questions:
        note("Answer one with `midturn answer ID [VALUE]`; the beginning of an ID will do.")
    else:
        say("Nothing waits for an answer.")
    return ExitStatus.DONE


def _watch(place: Place, *, as_json: bool) -> ExitStatus:
    """Show what happens until Ctrl-C; with `as_json`, a line of JSON each."""
    with suppress(KeyboardInterrupt):
        for change in place.store.watch_sync():
            if as_json:
                say_line(change.to_json())
                continue
            for row in _news(change):
                say(row)
    return ExitStatus.DONE


def _news(change: StoreChange) -> Iterable[Shown]:
    match change.kind:
        case "asked" if change.question:
            return table(_rows(change.question))
        case "answered":
            by = change.answered_by
            return [line("{}  answered by {}", change.id, (by.user or by.via or by.model or by.by) if by else "somebody")]
        case "withdrawn":
            return [line("{}  withdrawn", change.id)]
        case _:
            return [line("The turn of conversation {} has ended.", change.conversation)]


def _rows(question: OpenQuestion) -> list[tuple[Shown, Shown]]:
    form = line(" (a form of {} questions)", question.form.total) if question.form else line("")
    asked = line("{} asks: {}{}", question.source.header, question.question.text, form)
    subject = [(line(""), line("{}", about)) for about in _about(question)]
    where = line("in conversation {}, since {}", question.conversation, moment(question.asked_at))
    return [(line("{}", question.id), asked), *subject, (line(""), where), *_who(question.asker)]


def _who(asker: Asker | None) -> list[tuple[Shown, Shown]]:
    """Say from where another agent asks, and whether it still waits."""
    if asker is None:
        return []
    session = line(", session {}", asker.session) if asker.session else line("")
    waits = line("it waits") if asker.waits else line("its process is gone")
    return [(line(""), line("from {}{}; {}", asker.cwd or asker.name, session, waits))]


def _about(question: OpenQuestion) -> list[str]:
    """Say what is decided about: the arguments of a call that is to be approved, the options that there are."""
    arguments = [_shortened(msgspec.json.encode(question.arguments).decode())] if question.kind == "run" else []
    return [*arguments, *([f"[{allowed}]"] if (allowed := _allowed(question)) else [])]


def _allowed(question: OpenQuestion) -> str:
    """Name the answers that there are, where they can be named."""
    if question.kind == "run":
        return 'y | n | {"edit": …}'
    match question.question.answer_type:
        case BooleanType():
            return "y | n"
        case SelectType() | MultiSelectType() as kind:
            named = [f"{number} {option.label}" for number, option in enumerate(kind.options[:_MOST_OPTIONS], 1)]
            rest = [f"… {len(kind.options)} in all"] if len(kind.options) > _MOST_OPTIONS else []
            return _shortened(" | ".join([*named, *rest, *(["--other TEXT"] if kind.allow_other else [])]))
        case _:
            return ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _grouped(questions: list[OpenQuestion]) -> list[OpenQuestion]:
    """Keep what one session of another agent asks together, where its first question stands."""
    order: dict[tuple[str, str, str], int] = {}
    for place, question in enumerate(questions):
        order.setdefault(_session(question, place), place)
    return [question for _, question in sorted(enumerate(questions), key=lambda each: (order[_session(each[1], each[0])], each[0]))]


def _session(question: OpenQuestion, place: int) -> tuple[str, str, str]:
    asker = question.asker
    return (asker.agent, asker.name, asker.session) if asker and asker.session else ("", "", str(place))
