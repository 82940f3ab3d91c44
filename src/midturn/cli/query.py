"""`midturn query`: run one turn."""

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

from midturn.agent.assembly.command_line import CommandArguments, next_request
from midturn.cli.command_context import CommandContext, StoreAddress, environment, find_place
from midturn.cli.loading import Flags, load_for, model_to_be_trusted, report_ignored
from midturn.cli.locked import ConversationLock, is_attached
from midturn.cli.options import (
    LOCAL,
    with_id,
    with_model,
    with_non_interactive,
    with_output,
    with_store,
    without,
)
from midturn.cli.output import ExitStatus, note, say_json
from midturn.cli.resume import BEFORE_A_REQUEST, ResumeOffer, resolve_open_turn
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
from midturn.turn.inputs import TurnRequested

if TYPE_CHECKING:
    from midturn.agent.assembly.mcp import Servers


# --------------------------------------------------------------------------------------------------
# The message: arguments and piped stdin


_STDIN_NOTICE_DELAY = 2.0  # seconds without input before a note about waiting for stdin


def request_text(words: Sequence[str]) -> str:
    """Return the arguments, followed by piped stdin. If both are empty, open the user's editor.

    Raises:
        click.UsageError: There is no text, or stdin is not UTF-8.
    """
    text = "\n\n".join(part for part in (" ".join(words), _piped()) if part.strip())
    text = text or _edited()
    if not text:
        raise click.UsageError(
            'The message is empty. Run `midturn query "…"`, or pipe text to stdin.'
        )
    return text


def _edited() -> str:
    """Let the user write in an editor, if there is a terminal. Otherwise return an empty string."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return ""
    written = click.edit(
        "\n# Write your message. Lines that start with # are ignored.\n", extension=".md"
    )
    return "\n".join(row for row in (written or "").splitlines() if not row.startswith("#")).strip()


def _piped() -> str:
    """Read all of stdin if it is a pipe, a socket or a file."""
    try:
        if sys.stdin is None or not _has_text(os.fstat(sys.stdin.fileno()).st_mode):
            return ""
        if not select.select([sys.stdin], [], [], _STDIN_NOTICE_DELAY)[0]:
            note(
                "midturn: reading stdin until its end. If there is no input, press Ctrl-C and run"
                " the command with `< /dev/null`."
            )
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"stdin is not UTF-8 text (at byte {error.start}).") from error
    except (OSError, ValueError) as error:
        raise click.UsageError(f"Cannot read stdin: {error}.") from error


def _has_text(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


# --------------------------------------------------------------------------------------------------
# `--schema`


def read_schema(given: str | None) -> JsonObject | None:
    """Read a JSON Schema from JSON text or from a file.

    Raises:
        click.UsageError: The schema cannot be read, is not a JSON object, or uses unsupported
            keywords.
    """
    if given is None:
        return None
    text, origin = (
        (given, "--schema")
        if given.lstrip().startswith("{")
        else (_file(given), f"--schema {given}")
    )
    try:
        schema = cast("Json", msgspec.json.decode(text))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{origin}: not valid JSON: {error}") from error
    if not isinstance(schema, Mapping):
        raise click.UsageError(f"{origin}: a JSON Schema must be an object.")
    _check_shape(cast("JsonObject", schema), origin)
    return cast("JsonObject", schema)


def _file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(
            f"--schema {name}: cannot read the file: {error.strerror}."
        ) from error


def _check_shape(schema: JsonObject, origin: str) -> None:
    problems = check_schema(schema)
    if problems:
        raise click.UsageError(
            "\n".join([f"{origin}: the schema is not supported.", *map(str, problems)])
        )


# --------------------------------------------------------------------------------------------------
# The command


class Query(Struct, frozen=True, kw_only=True):
    """Arguments and options of `midturn query`."""

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
@click.option(
    "-c", "--continue", "continues", is_flag=True, help="Continue the current conversation"
)
@with_id("Conversation ID")
@with_model
@with_toggles
@click.option(
    "--cfg",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="Set a configuration key, or read keys from a file",
)
@click.option("--schema", metavar="FILE|JSON", help="JSON Schema of the response")
@click.option(
    "--answer",
    multiple=True,
    metavar="TOOL.QUESTION=VALUE",
    help="Answer a question in advance (not for secrets)",
)
@with_non_interactive
@click.option("--defer", is_flag=True, help="Never prompt; leave every question in the inbox")
@click.option("--wait", is_flag=True, help="With --defer: wait until the questions are answered")
@click.option("--dry-run", is_flag=True, help="Print the model request without sending it")
@without("--local", LOCAL)
@with_store
@with_output
@click.option(
    "--max-cycles", type=click.IntRange(min=1), metavar="N", help="Maximum number of model calls"
)
def command(**given: object) -> ExitStatus:
    """Run one turn and print the response

    `midturn "two words"` is the same. TEXT is your message; piped stdin is appended. If -t or -T
    has no name, follow it with another option or with `--`.
    """
    return run_query(Query(**given))  # type: ignore[arg-type]  # click has validated the fields


def run_query(query: Query) -> ExitStatus:
    """Run one turn in a new conversation, or in the conversation selected by `-c` or `--id`."""
    _check(query)
    place = find_place(query.store)
    if (
        query.continues
        and query.text
        and query.text[0].isdecimal()
        and query.text[0] in place.beginning_with(query.text[0])
    ):
        raise click.UsageError(
            f"`-c` continues the current conversation and takes no ID. Use `--id {query.text[0]}`"
            " instead."
        )
    text, schema = request_text(query.text), read_schema(query.schema)
    if query.dry_run:
        return _dry_run(query, place, ChatRequest(content=text, schema=schema))
    if not (query.continues or query.id):
        return begin(query, place, TurnRequested(text, schema=schema))
    with ConversationLock.existing(place, place.conversation(query.id)) as held:
        return continue_conversation(query, place, held, TurnRequested(text, schema=schema))


def _check(query: Query) -> None:
    if query.wait and not query.defer:
        raise click.UsageError("`--wait` requires `--defer`.")
    if query.continues and query.id:
        raise click.UsageError("`--continue` and `--id` cannot be combined.")


class TurnEnvironment(Struct, frozen=True, kw_only=True):
    """Callbacks and settings that a chat passes to a turn.

    Args:
        opened: Called with the ID of a new conversation.
        sent: Called when the request is sent.
        servers: MCP servers that stay connected between the turns of the chat.
        offer: Question about a turn that is still open when a new message is sent.
    """

    opened: Callable[[str], None] = lambda _: None
    sent: Callable[[], None] = lambda: None
    servers: Servers | None = None
    offer: ResumeOffer = BEFORE_A_REQUEST


_ALONE = TurnEnvironment()


def begin(
    query: Query, place: CommandContext, requested: TurnRequested, around: TurnEnvironment = _ALONE
) -> ExitStatus:
    """Run a turn in a new conversation."""
    loaded = _load(query, place, ())
    runner = _runner(query, place, loaded, around)
    limited = place.under(loaded.settings.limits)
    with ConversationLock.new(limited, requested.content) as held:
        place.set_current(held.conversation)
        around.opened(held.conversation)
        around.sent()
        return runner.run(
            held,
            TurnRequested(
                requested.content, schema=requested.schema, delta=loaded.given.to_record()
            ),
        )


def continue_conversation(
    query: Query,
    place: CommandContext,
    held: ConversationLock,
    requested: TurnRequested,
    around: TurnEnvironment = _ALONE,
) -> ExitStatus:
    """Run a turn in a locked conversation."""
    loaded = _load(query, place, held.events)
    runner = _runner(query, place, loaded, around)

    status = resolve_open_turn(place, held, attached=_attached(query), offer=around.offer)
    if status is not None:
        note("midturn: your new message was not sent.")
        return status
    place.set_current(held.conversation)
    around.sent()
    return runner.run(
        held,
        TurnRequested(requested.content, schema=requested.schema, delta=loaded.given.to_record()),
    )


def _dry_run(query: Query, place: CommandContext, asked: ChatRequest) -> ExitStatus:
    """Print the request as JSON without sending it.

    The request contains no secrets, because the log contains none.
    """
    number = place.conversation(query.id) if query.continues or query.id else None
    events = place.store.read_sync(number).events if number else ()
    settings = _load(query, place, events).settings

    with connected(settings, place.root, attached=_attached(query)) as servers:
        parts = CommandArguments(settings=settings, root=place.root, others=servers.tools)
        say_json(request_json(settings.assistant.model.id, next_request(parts, events, asked)))
    return ExitStatus.DONE


def _load(query: Query, place: CommandContext, events: Sequence[Event]) -> Loaded:
    loaded = load_for(place, _flags(query), events)
    report_ignored(loaded, attached=_attached(query))
    if untrusted := model_to_be_trusted(loaded):
        raise ConfigError(untrusted)
    if query.answer:
        check_answers(query.answer, loaded.settings, events)
    return loaded


def _runner(
    query: Query, place: CommandContext, loaded: Loaded, around: TurnEnvironment
) -> TurnRunner:
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
