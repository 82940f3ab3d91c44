"""`midturn conversation grep`: finds what was said and done. Answers to questions are left alone: they may be nobody's business."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import table
from midturn.cli.options import with_id, with_json, with_store
from midturn.cli.output import note, say, say_json
from midturn.cli.place import Place, StoreAddress, find_place
from midturn.cli.shown import block, line
from midturn.core.events import ChatRequest, ChatResponse, Event, InquiryRequest, ToolCallRequest, ToolCallResponse
from midturn.core.json_value import Json
from midturn.errors import StoreError


@click.command
@click.argument("pattern")
@click.option("-i", "--ignore-case", is_flag=True, help="Treat small letters and capitals alike.")
@click.option("-F", "--fixed", is_flag=True, help="PATTERN is text, not a regular expression.")
@with_id("Search this conversation only.")
@with_json
@with_store
def command(pattern: str, *, ignore_case: bool, fixed: bool, id: str | None, as_json: bool, store: StoreAddress | None) -> ExitStatus:
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
        events = place.store.read_sync(number).events
    except StoreError as error:
        note(line("midturn: {}", block(str(error))))
        return
    for event in events:
        for text in _texts(event):
            yield from ((number, event.event_id, event.type, row) for row in text.splitlines() if wanted.search(row))


def _texts(event: Event) -> list[str]:
    match event:
        case ChatRequest(content=content) | ToolCallResponse(content=content):
            return [content]
        case ChatResponse():
            return [text for text in (event.message, event.reasoning) if text]
        case ToolCallRequest(name=name, arguments=arguments):
            return [f"{name} {_json(arguments)}"]
        case InquiryRequest(question=question):
            return [question.text, *([question.context] if question.context else [])]
        case _:
            return []


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
