"""`midturn query`: one turn, and everything that its flags say about it."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import msgspec
from msgspec import Struct

from midturn.agent.assembly.command_line import CommandParts, next_request
from midturn.cli.command_context import Place, StoreAddress, environment, find_place
from midturn.cli.loading import Flags, load_for, model_to_be_trusted, report_ignored
from midturn.cli.locked import Held, is_attached
from midturn.cli.options import LOCAL, with_id, with_model, with_non_interactive, with_output, with_store, without
from midturn.cli.output import ExitStatus, note, say_json
from midturn.cli.resume import BEFORE_A_REQUEST, Offer, resolve_open_turn
from midturn.cli.turn_end import OutputFormat
from midturn.cli.turn_flags import TogglingCommand, check_answers, with_toggles
from midturn.cli.turn_run import TurnRun, TurnRunner, connected
from midturn.config.assign import Assignment, static_answer
from midturn.config.load import Loaded
from midturn.config.settings import Toggle
from midturn.errors import ConfigError
from midturn.events.types import ChatRequest, Event
from midturn.models.wrapper import request_json
from midturn.question.json_value import Json, JsonObject
from midturn.question.schema import check_schema
from midturn.turn.step import TurnRequested

if TYPE_CHECKING:
    from midturn.agent.assembly.mcp import Servers


# ----------------------------------------------------------------------------------------------------------------------
# The request: words of the command line, and piped stdin


_PATIENCE = 2.0  # seconds of silence, after which we say what we are waiting for


def request_text(words: Sequence[str]) -> str:
    """Return the words, and after them what is piped into stdin; with neither, what is written in the person's editor.

    Raises:
        click.UsageError: Both are empty, or stdin is not text.
    """
    text = "\n\n".join(part for part in (" ".join(words), _piped()) if part.strip())
    text = text or _edited()
    if not text:
        raise click.UsageError('There is nothing to ask. Write `midturn query "…"`, or pipe text into it.')
    return text


def _edited() -> str:
    """Let the person write in their editor, if there is one at a terminal; nothing where there is none, or where nothing was written."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return ""
    written = click.edit("\n# What do you want to ask? Lines that begin with # are left out.\n", extension=".md")
    return "\n".join(row for row in (written or "").splitlines() if not row.startswith("#")).strip()


def _piped() -> str:
    """Read stdin to its end, if it is a pipe, a socket or a file."""
    try:
        if sys.stdin is None or not _has_text(os.fstat(sys.stdin.fileno()).st_mode):
            return ""
        if not select.select([sys.stdin], [], [], _PATIENCE)[0]:
            note("midturn: reading stdin to its end. With nothing to pipe in, end it with Ctrl-C and add `< /dev/null`.")
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"What is piped into stdin is not UTF-8 text (byte {error.start}).") from error
    except (OSError, ValueError) as error:
        raise click.UsageError(f"stdin cannot be read: {error}.") from error


def _has_text(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


# ----------------------------------------------------------------------------------------------------------------------
# `--schema`: the shape of the answer


def read_schema(given: str | None) -> JsonObject | None:
    """Read a JSON Schema: the JSON itself, or a file that holds it.

    Raises:
        click.UsageError: It cannot be read, is not a JSON object, or is outside the subset that is understood.
    """
    if given is None:
        return None
    text, origin = (given, "--schema") if given.lstrip().startswith("{") else (_file(given), f"--schema {given}")
    try:
        schema = cast("Json", msgspec.json.decode(text))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{origin}: not valid JSON: {error}") from error
    if not isinstance(schema, Mapping):
        raise click.UsageError(f"{origin}: a JSON Schema is an object.")
    _check_shape(cast("JsonObject", schema), origin)
    return cast("JsonObject", schema)


def _file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--schema {name}: cannot be read: {error.strerror}.") from error


def _check_shape(schema: JsonObject, origin: str) -> None:
    problems = check_schema(schema)
    if problems:
        raise click.UsageError("\n".join([f"{origin}: this schema cannot be used.", *map(str, problems)]))


# ----------------------------------------------------------------------------------------------------------------------
# `midturn query`: one turn


class Query(Struct, frozen=True, kw_only=True):
    """Flags of the command line; the fields are its flags."""

    text: tuple[str, ...]
    continues: bool = False
    id: str | None = None
    model: str | None = None
    toggles: tuple[Toggle, ...] = ()
    cfg: tuple[str, ...] = ()
    schema: str | None = None
    answer: tuple[str, ...] = ()
    non_interactive: bool = False
    defer: bool = False
    wait: bool = False
    dry_run: bool = False
    store: StoreAddress | None = None
    output: OutputFormat = "text"
    max_cycles: int | None = None


@click.command(cls=TogglingCommand)
@click.argument("text", nargs=-1)
@click.option("-c", "--continue", "continues", is_flag=True, help="Go on with the current conversation.")
@with_id("Go on with this conversation.")
@with_model
@with_toggles
@click.option("--cfg", multiple=True, metavar="KEY=VALUE|FILE", help="Set a key of the configuration, or read a file of keys.")
@click.option("--schema", metavar="FILE|JSON", help="The shape of the answer, as a JSON Schema.")
@click.option("--answer", multiple=True, metavar="TOOL.QUESTION=VALUE", help="Answer a question before it is asked. Never a secret.")
@with_non_interactive
@click.option("--defer", is_flag=True, help="Ask no one now: every question waits in the inbox.")
@click.option("--wait", is_flag=True, help="With --defer: stay until the questions are answered.")
@click.option("--dry-run", is_flag=True, help="Print the request that would be sent, and send nothing.")
@without("--local", LOCAL)
@with_store
@with_output
@click.option("--max-cycles", type=click.IntRange(min=1), metavar="N", help="Call the model at most N times.")
def command(**given: object) -> ExitStatus:
    """Ask, and let the model answer with its tools.

    TEXT is what you ask; what is piped into stdin is added to it. A `-t` or `-T` without a name is followed by another option or `--`.
    """
    return run_query(Query(**given))  # type: ignore[arg-type]  # click has checked every field


def run_query(query: Query) -> ExitStatus:
    """Run one turn in a new conversation, or in the one that `-c` or `--id` names."""
    _check(query)
    place = find_place(query.store)
    if query.continues and query.text and query.text[0].isdecimal() and query.text[0] in place.beginning_with(query.text[0]):
        raise click.UsageError(f"`-c` continues the current conversation and takes no ID. Use `--id {query.text[0]}` instead.")
    text, schema = request_text(query.text), read_schema(query.schema)
    if query.dry_run:
        return _dry_run(query, place, ChatRequest(content=text, schema=schema))
    if not (query.continues or query.id):
        return begin(query, place, TurnRequested(text, schema=schema))
    with Held.existing(place, place.conversation(query.id)) as held:
        return go_on(query, place, held, TurnRequested(text, schema=schema))


def _check(query: Query) -> None:
    if query.wait and not query.defer:
        raise click.UsageError("`--wait` holds on until deferred questions are answered: use it with `--defer`.")
    if query.continues and query.id:
        raise click.UsageError("`--continue` is for the current conversation, `--id` for another: give one of them.")


class Around(Struct, frozen=True, kw_only=True):
    """Surroundings of one turn of several.

    `opened` is told the id of a new conversation, and `sent` that the request is on its way; `servers` stay connected. `offer` asks about a
    turn that is open.
    """

    opened: Callable[[str], None] = lambda _: None
    sent: Callable[[], None] = lambda: None
    servers: Servers | None = None
    offer: Offer = BEFORE_A_REQUEST


_ALONE = Around()


def begin(query: Query, place: Place, requested: TurnRequested, around: Around = _ALONE) -> ExitStatus:
    """Run a turn in a new conversation."""
    loaded = _load(query, place, ())
    runner = _runner(query, place, loaded, around)
    limited = place.under(loaded.settings.limits)
    with Held.new(limited, requested.content) as held:
        place.set_current(held.conversation)
        around.opened(held.conversation)
        around.sent()
        return runner.run(held, TurnRequested(requested.content, schema=requested.schema, delta=loaded.given.to_record()))


def go_on(query: Query, place: Place, held: Held, requested: TurnRequested, around: Around = _ALONE) -> ExitStatus:
    """Run a turn in a conversation that is held."""
    loaded = _load(query, place, held.events)
    runner = _runner(query, place, loaded, around)

    status = resolve_open_turn(place, held, attached=_attached(query), offer=around.offer)
    if status is not None:
        note("midturn: your new request was not sent.")
        return status
    place.set_current(held.conversation)
    around.sent()
    return runner.run(held, TurnRequested(requested.content, schema=requested.schema, delta=loaded.given.to_record()))


def _dry_run(query: Query, place: Place, asked: ChatRequest) -> ExitStatus:
    """Print the request that would be sent, as JSON, and send nothing. No secret can be in it: the stream has none."""
    number = place.conversation(query.id) if query.continues or query.id else None
    events = place.store.read_sync(number).events if number else ()
    settings = _load(query, place, events).settings

    with connected(settings, place.root, attached=_attached(query)) as servers:
        parts = CommandParts(settings=settings, root=place.root, others=servers.tools)
        say_json(request_json(settings.assistant.model.id, next_request(parts, events, asked)))
    return ExitStatus.DONE


def _load(query: Query, place: Place, events: Sequence[Event]) -> Loaded:
    loaded = load_for(place, _flags(query), events)
    report_ignored(loaded, attached=_attached(query))
    if untrusted := model_to_be_trusted(loaded):
        raise ConfigError(untrusted)
    if query.answer:
        check_answers(query.answer, loaded.settings, events)
    return loaded


def _runner(query: Query, place: Place, loaded: Loaded, around: Around) -> TurnRunner:
    run = TurnRun(
        place=place,
        loaded=loaded,
        attached=_attached(query),
        output=query.output,
        waits=query.wait,
        shaped=query.schema is not None,
        servers=around.servers,
        again=around.offer.again,
    )
    return TurnRunner(run)


def _attached(query: Query) -> bool:
    return is_attached(environment(), non_interactive=query.non_interactive or query.defer)


def _flags(query: Query) -> Flags:
    assignments = [static_answer(answer) for answer in query.answer]
    if query.model:
        assignments.append(Assignment("assistant.model.id", query.model, "--model"))
    if query.max_cycles:
        assignments.append(Assignment("limits.cycles", query.max_cycles, "--max-cycles"))
    return Flags(cfg=query.cfg, toggles=query.toggles, assignments=assignments, defer=query.defer)
