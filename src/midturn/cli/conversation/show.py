"""`midturn conversation show`, `usage` and `grep`."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import click
from msgspec import Struct

from midturn.cli.command_context import CommandContext, StoreAddress, find_place
from midturn.cli.conversation.transcript import (
    print_inquiries,
    print_inquiries_json,
    print_transcript,
)
from midturn.cli.options import with_conversation, with_id, with_json, with_store
from midturn.cli.output import ExitStatus, Shown, block, line, note, say, say_json, table
from midturn.errors import StoreError
from midturn.events.transcript import (
    CallEntry,
    Entry,
    RequestEntry,
    ResultEntry,
    WordsEntry,
    transcript_entries,
)
from midturn.events.types import Event, user_requests
from midturn.events.window import Window
from midturn.exchange import Usage, spent_in
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.question.people import amount
from midturn.stores.conversation import Conversation, problems_of, turns_in
from midturn.stores.log_tail import Part
from midturn.stores.response_times import PeopleStatistics, WaitRow, people_sums, waited_for

# --------------------------------------------------------------------------------------------------
# Token usage by turn, separately for questions that models answered


class TurnCost(Struct, frozen=True):
    """Token usage of a turn: requests to its own model, and requests to models that answered
    questions.
    """

    main: Usage = Usage()
    side: Usage = Usage()
    questions: int = 0

    def __add__(self, other: TurnCost) -> TurnCost:
        return TurnCost(
            self.main + other.main, self.side + other.side, self.questions + other.questions
        )


def print_usage(conversation: Conversation) -> None:
    """Print a row per turn, and the total."""
    turns = [(_asked(window.events), _spent(window.events)) for window in conversation.turns]
    total = sum((spent for _, spent in turns), TurnCost())
    heading = [line("input"), line("cached"), line("output"), line("what")]
    rows = [row for asked, spent in (*turns, ("all turns", total)) for row in _rows(spent, asked)]
    for row in table([heading, *rows]):
        say(row)


def print_usage_json(conversation: Conversation) -> None:
    """Print the token usage as JSON."""
    turns = [_spent(window.events) for window in conversation.turns]
    say_json({"turns": [_json(spent) for spent in turns], "total": _json(sum(turns, TurnCost()))})


def _rows(spent: TurnCost, what: str) -> Iterator[list[Shown]]:
    yield [*_counts(spent.main), line("{}", what)]
    if spent.questions:
        what = (
            "1 question to a model"
            if spent.questions == 1
            else f"{spent.questions} questions to models"
        )
        yield [*_counts(spent.side), line("  {}", what)]


def _counts(usage: Usage) -> list[Shown]:
    return [
        line("{}", f"{number:,}")
        for number in (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    ]


def _json(spent: TurnCost) -> Json:
    return {**_fields(spent.main), "questions": {"count": spent.questions, **_fields(spent.side)}}


def _fields(usage: Usage) -> dict[str, Json]:
    return {field: getattr(usage, field) for field in Usage.__struct_fields__}


def _asked(turn: Sequence[Event]) -> str:
    contents = (request.content for request in user_requests(turn))
    return next((line for content in contents for line in content.splitlines() if line.strip()), "")


def _spent(turn: Sequence[Event]) -> TurnCost:
    return sum(
        (
            TurnCost(side=spent.usage, questions=1) if spent.is_inquiry else TurnCost(spent.usage)
            for spent in spent_in(turn)
        ),
        TurnCost(),
    )


# --------------------------------------------------------------------------------------------------
# `conversation usage`


@click.command
@with_conversation
@click.option(
    "--people", is_flag=True, help="Show response times of people (without ID: all conversations)"
)
@with_json
@with_store
def usage_command(
    id: str | None, *, people: bool, as_json: bool, store: StoreAddress | None
) -> ExitStatus:
    """Show token usage, or response times with --people"""
    place = find_place(store)
    if not people:
        (print_usage_json if as_json else print_usage)(read_with_warnings(place, id))
        return ExitStatus.DONE
    ids = [place.conversation(id)] if id else place.store.ids_sync()
    added = people_sums(
        fact
        for conversation in ids
        for fact in waited_for(place.store.read_sync(conversation).events)
    )
    if as_json:
        say_json(added.to_json())
    else:
        _print_people(added)
    return ExitStatus.DONE


def _print_people(added: PeopleStatistics) -> None:
    for title, rows in (("person", added.people), ("group", added.groups)):
        if rows:
            head = tuple(line("{}", word) for word in (title, "answers", "median", "longest"))
            for text in table(
                [head, *(tuple(line("{}", cell) for cell in _cells(row)) for row in rows)]
            ):
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


# --------------------------------------------------------------------------------------------------
# Reading a conversation with warnings. Problems in its files are printed, and its readable events
# are shown.


def read_with_warnings(place: CommandContext, id: str | None) -> Conversation:
    """Read conversation `id` or the current one, and print warnings about its files."""
    conversation = place.store.read_sync(place.conversation(id))
    for problem in conversation.problems:
        note(line("midturn: {}", block(problem)))
    return conversation


def parts_with_warnings(place: CommandContext, id: str, last: int | None = None) -> Iterator[Part]:
    """Read a conversation in parts, and print warnings about each part."""
    for part in place.store.parts_sync(id, last=last):
        yield part
        for problem in part.problems:
            note(line("midturn: {}", block(problem)))


def _turns_with_warnings(place: CommandContext, id: str, last: int | None) -> Iterable[Window]:
    """Return all turns of a conversation, or the last turns."""
    turns = _report_problems(turns_in(parts_with_warnings(place, id, last)))
    return turns if last is None else deque(turns, maxlen=last)


def _report_problems(turns: Iterable[Window]) -> Iterator[Window]:
    """Yield the turns, and print warnings about unreadable events."""
    for turn in turns:
        for problem in problems_of(turn.events):
            note(line("midturn: {}", block(problem)))
        yield turn


@click.command
@with_conversation
@click.option(
    "--inquiries", is_flag=True, help="Show the audit trail: questions, answers, people, reasons"
)
@click.option("--usage", is_flag=True, help="Show token usage by turn")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N turns")
@with_json
@with_store
def command(
    id: str | None,
    *,
    inquiries: bool,
    usage: bool,
    last: int | None,
    as_json: bool,
    store: StoreAddress | None,
) -> ExitStatus:
    """Show a conversation"""
    if inquiries and usage:
        raise click.UsageError("`--inquiries` and `--usage` cannot be combined.")
    place = find_place(store)
    turns = _turns_with_warnings(place, place.conversation(id), last)
    if not (inquiries or usage or as_json):
        print_transcript(turns)
        return ExitStatus.DONE
    conversation = (
        read_with_warnings(place, id)
        if last is None
        else Conversation("", [event for turn in turns for event in turn.events])
    )
    if inquiries:
        (print_inquiries_json if as_json else print_inquiries)(conversation)
    elif usage:
        (print_usage_json if as_json else print_usage)(conversation)
    else:
        say_json([event.to_json() for event in conversation.events])
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------
# `midturn conversation grep`. Answers to questions are not searched, because they may be private.


@click.command
@click.argument("pattern")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case")
@click.option("-F", "--fixed", is_flag=True, help="PATTERN is plain text")
@with_id("Search one conversation")
@with_json
@with_store
def grep_command(
    pattern: str,
    *,
    ignore_case: bool,
    fixed: bool,
    id: str | None,
    as_json: bool,
    store: StoreAddress | None,
) -> ExitStatus:
    """Search conversations for PATTERN

    Prints each matching line. Answers to questions are not searched. Exits with status 1 if nothing
    matches.

    Example: midturn conversation grep -i "rate limit"
    """
    place = find_place(store)
    wanted = _compiled(
        re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else re.NOFLAG
    )
    found = [
        hit
        for number in ([place.conversation(id)] if id else place.store.ids_sync())
        for hit in _search(place, number, wanted)
    ]
    if as_json:
        say_json(
            [
                dict(zip(("conversation", "event", "type", "line"), hit, strict=True))
                for hit in found
            ]
        )
        return ExitStatus.DONE if found else ExitStatus.ERROR
    for row in table(
        [
            (line("{}", number), line("{}", kind), line("{}", text))
            for number, _, kind, text in found
        ]
    ):
        say(row)
    if not found:
        note("midturn: no match.")
    return ExitStatus.DONE if found else ExitStatus.ERROR


def _compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except (re.error, RecursionError) as error:
        raise click.UsageError(
            f"Invalid regular expression {pattern!r}: {error}. To search for plain text, use `-F`."
        ) from error


def _search(
    place: CommandContext, number: str, wanted: re.Pattern[str]
) -> Iterator[tuple[str, str, str, str]]:
    try:
        for part in place.store.parts_sync(number):
            for event, entry in (
                (entry.event, entry) for entry in transcript_entries(part.decode())
            ):
                for text in _texts(entry):
                    yield from (
                        (number, event.event_id, event.type, row)
                        for row in text.splitlines()
                        if wanted.search(row)
                    )
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
            return [
                asked.question.text,
                *([asked.question.context] if asked.question.context else []),
            ]
        case _:
            return []
