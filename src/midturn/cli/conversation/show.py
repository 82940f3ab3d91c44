"""`midturn conversation show` and `grep`."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import click
from msgspec import Struct

from midturn.cli.command_context import Place, StoreAddress, find_place
from midturn.cli.conversation.transcript import print_inquiries, print_inquiries_json, print_transcript
from midturn.cli.options import with_conversation, with_id, with_json, with_store
from midturn.cli.output import ExitStatus, Shown, block, line, note, say, say_json, table
from midturn.errors import StoreError
from midturn.events.transcript import CallEntry, Entry, RequestEntry, ResultEntry, WordsEntry, told
from midturn.events.types import Event, user_requests
from midturn.events.window import Window
from midturn.exchange import Usage, spent_in
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.question.people import amount
from midturn.stores.conversation import Conversation, problems_of, turns_in
from midturn.stores.log_tail import Part
from midturn.stores.response_times import PeopleSums, WaitRow, people_sums, waited_for

# ----------------------------------------------------------------------------------------------------------------------
# `conversation show --usage`: the tokens of each turn, and apart from them those of questions to models


class TurnCost(Struct, frozen=True):
    """Cost of a turn: the requests of its own model, and those to models that answered questions on the side."""

    main: Usage = Usage()
    side: Usage = Usage()
    questions: int = 0

    def __add__(self, other: TurnCost) -> TurnCost:
        return TurnCost(self.main + other.main, self.side + other.side, self.questions + other.questions)


def print_usage(conversation: Conversation) -> None:
    """Print a row a turn, and their sum."""
    turns = [(_asked(window.events), _spent(window.events)) for window in conversation.turns]
    total = sum((spent for _, spent in turns), TurnCost())
    heading = [line("input"), line("cached"), line("output"), line("what")]
    rows = [row for asked, spent in (*turns, ("all turns", total)) for row in _rows(spent, asked)]
    for row in table([heading, *rows]):
        say(row)


def print_usage_json(conversation: Conversation) -> None:
    """Print the same as JSON."""
    turns = [_spent(window.events) for window in conversation.turns]
    say_json({"turns": [_json(spent) for spent in turns], "total": _json(sum(turns, TurnCost()))})


def _rows(spent: TurnCost, what: str) -> Iterator[list[Shown]]:
    yield [*_numbers(spent.main), line("{}", what)]
    if spent.questions:
        what = "1 question to a model" if spent.questions == 1 else f"{spent.questions} questions to models"
        yield [*_numbers(spent.side), line("  {}", what)]


def _numbers(usage: Usage) -> list[Shown]:
    return [line("{}", f"{number:,}") for number in (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)]


def _json(spent: TurnCost) -> Json:
    return {**_fields(spent.main), "questions": {"count": spent.questions, **_fields(spent.side)}}


def _fields(usage: Usage) -> dict[str, Json]:
    return {field: getattr(usage, field) for field in Usage.__struct_fields__}


def _asked(turn: Sequence[Event]) -> str:
    contents = (request.content for request in user_requests(turn))
    return next((line for content in contents for line in content.splitlines() if line.strip()), "")


def _spent(turn: Sequence[Event]) -> TurnCost:
    return sum((TurnCost(side=one.usage, questions=1) if one.is_inquiry else TurnCost(one.usage) for one in spent_in(turn)), TurnCost())


# ----------------------------------------------------------------------------------------------------------------------
# `conversation usage`: what conversations have cost, in tokens and in the time of people


@click.command
@with_conversation
@click.option("--people", is_flag=True, help="How long people were waited for; without an ID, in all conversations.")
@with_json
@with_store
def usage_command(id: str | None, *, people: bool, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """Count the tokens of conversation ID (by default the current one), or how long people were waited for."""
    place = find_place(store)
    if not people:
        (print_usage_json if as_json else print_usage)(read_for_a_person(place, id))
        return ExitStatus.DONE
    ids = [place.conversation(id)] if id else place.store.ids_sync()
    added = people_sums(fact for one in ids for fact in waited_for(place.store.read_sync(one).events))
    if as_json:
        say_json(added.to_json())
    else:
        _print_people(added)
    return ExitStatus.DONE


def _print_people(added: PeopleSums) -> None:
    for title, rows in (("person", added.people), ("group", added.groups)):
        if rows:
            head = tuple(line("{}", word) for word in (title, "answers", "half within", "longest"))
            for text in table([head, *(tuple(line("{}", cell) for cell in _cells(row)) for row in rows)]):
                say(text)
    counted = {
        "asked of people": added.asked,
        "reminders": added.reminders,
        "escalations": added.escalations,
        "deadlines missed": added.deadlines_missed,
        "votes overturned": added.votes_overturned,
    }
    for text in table([(line("{}", what), line("{}", count)) for what, count in counted.items()]):
        say(text)


def _cells(row: WaitRow) -> tuple[str, ...]:
    return row.name, str(row.answers), amount(row.half), amount(row.longest)


# ----------------------------------------------------------------------------------------------------------------------
# Reading a conversation for a person: what is wrong with its files is said, and the rest is shown


def read_for_a_person(place: Place, id: str | None) -> Conversation:
    """Read conversation `id`, or the current one."""
    conversation = place.store.read_sync(place.conversation(id))
    for problem in conversation.problems:
        note(line("midturn: {}", block(problem)))
    return conversation


def parts_for_a_person(place: Place, id: str, last: int | None = None) -> Iterator[Part]:
    """Read a conversation part by part; what is wrong with a part is said as it comes."""
    for part in place.store.parts_sync(id, last=last):
        yield part
        for problem in part.problems:
            note(line("midturn: {}", block(problem)))


def _turns_for_a_person(place: Place, id: str, last: int | None) -> Iterable[Window]:
    """Return the turns of a conversation, or the last ones of them."""
    turns = _said_of(turns_in(parts_for_a_person(place, id, last)))
    return turns if last is None else deque(turns, maxlen=last)


def _said_of(turns: Iterable[Window]) -> Iterator[Window]:
    """Say what could not be read of each turn."""
    for turn in turns:
        for problem in problems_of(turn.events):
            note(line("midturn: {}", block(problem)))
        yield turn


@click.command
@with_conversation
@click.option("--inquiries", is_flag=True, help="Draw the audit trail: what was asked, who answered, and why.")
@click.option("--usage", is_flag=True, help="Count the tokens, turn by turn.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Show the last N turns only, at once however long it is.")
@with_json
@with_store
def command(id: str | None, *, inquiries: bool, usage: bool, last: int | None, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """Show what was said and done in conversation ID (by default the current one)."""
    if inquiries and usage:
        raise click.UsageError("`--inquiries` and `--usage` are two views: choose one.")
    place = find_place(store)
    turns = _turns_for_a_person(place, place.conversation(id), last)
    if not (inquiries or usage or as_json):
        print_transcript(turns)
        return ExitStatus.DONE
    conversation = read_for_a_person(place, id) if last is None else Conversation("", [event for turn in turns for event in turn.events])
    if inquiries:
        (print_inquiries_json if as_json else print_inquiries)(conversation)
    elif usage:
        (print_usage_json if as_json else print_usage)(conversation)
    else:
        say_json([event.to_json() for event in conversation.events])
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation grep`: finds what was said and done. Answers to questions are left alone: they may be private


@click.command
@click.argument("pattern")
@click.option("-i", "--ignore-case", is_flag=True, help="Treat small letters and capitals alike.")
@click.option("-F", "--fixed", is_flag=True, help="PATTERN is text, not a regular expression.")
@with_id("Search this conversation only.")
@with_json
@with_store
def grep_command(pattern: str, *, ignore_case: bool, fixed: bool, id: str | None, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """Find the lines that match PATTERN in what was said, asked and done; answers to questions are not searched."""
    place = find_place(store)
    wanted = _compiled(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else re.NOFLAG)
    found = [hit for number in ([place.conversation(id)] if id else place.store.ids_sync()) for hit in _search(place, number, wanted)]
    if as_json:
        say_json([dict(zip(("conversation", "event", "type", "line"), hit, strict=True)) for hit in found])
        return ExitStatus.DONE if found else ExitStatus.ERROR
    for row in table([(line("{}", number), line("{}", kind), line("{}", text)) for number, _, kind, text in found]):
        say(row)
    if not found:
        note("midturn: nothing was found.")
    return ExitStatus.DONE if found else ExitStatus.ERROR


def _compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except (re.error, RecursionError) as error:
        raise click.UsageError(f"{pattern!r} is not a regular expression ({error}). `-F` searches for text as it is.") from error


def _search(place: Place, number: str, wanted: re.Pattern[str]) -> Iterator[tuple[str, str, str, str]]:
    try:
        for part in place.store.parts_sync(number):
            for event, entry in ((entry.event, entry) for entry in told(part.decode())):
                for text in _texts(entry):
                    yield from ((number, event.event_id, event.type, row) for row in text.splitlines() if wanted.search(row))
    except StoreError as error:
        note(line("midturn: {}", block(str(error))))


def _texts(entry: Entry) -> list[str]:
    match entry:
        case WordsEntry(text=text):
            return [text] if text else []
        case ResultEntry(event=result):
            return [result.content]
        case CallEntry(event=call):
            return [f"{call.name} {compact(call.arguments)}"]
        case RequestEntry(event=asked):
            return [asked.question.text, *([asked.question.context] if asked.question.context else [])]
        case _:
            return []
