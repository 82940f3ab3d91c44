"""`midturn chat`: a conversation of several turns at the terminal."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence

import click
from msgspec import structs

from midturn.agent.assembly.mcp import Servers
from midturn.agent.assembly.models import refuse_unusable
from midturn.cli.chat_line import ChatLine, is_there, line_here, offers
from midturn.cli.command_context import CommandContext, StoreAddress, environment, find_place
from midturn.cli.loading import Flags, load_for, model_to_be_trusted
from midturn.cli.local_turns import check_is_free, record, report_move, run_own, summary
from midturn.cli.locked import ConversationLock, is_attached
from midturn.cli.main import run
from midturn.cli.options import LOCAL, with_id, with_model, with_store, without
from midturn.cli.output import ExitStatus, block, line, note, presented, table
from midturn.cli.query import Query, TurnEnvironment, begin, continue_conversation
from midturn.cli.resume import (
    AFTER_A_FAILURE,
    BEFORE_A_CHAT,
    IN_A_CHAT,
    check_is_ours,
    resolve_open_turn,
    resume_held,
)
from midturn.cli.turn_flags import TogglingCommand, with_toggles
from midturn.config.settings import Toggle
from midturn.errors import MidturnError, TerminalGone
from midturn.events.window import open_turn
from midturn.question.text import did_you_mean
from midturn.terminal.device import HUSH, Restored, open_device
from midturn.terminal.typed_ahead import LEAVE_PASTES, LEAVES, Message
from midturn.turn.inputs import TurnRequested

# --------------------------------------------------------------------------------------------------
# The command


@click.command(cls=TogglingCommand)
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
@without("--local", LOCAL)
@with_store
def command(
    *,
    continues: bool,
    id: str | None,
    model: str | None,
    toggles: tuple[Toggle, ...],
    cfg: tuple[str, ...],
    store: StoreAddress | None,
) -> ExitStatus:
    """Start a conversation with the assistant

    Type /help for commands.
    """
    if not is_there() or not is_attached(environment(), non_interactive=False):
        raise click.UsageError('A chat requires a terminal. Without one, use `midturn query "…"`.')
    if continues and id:
        raise click.UsageError("`--continue` and `--id` cannot be combined.")
    place = find_place(store)
    conversation = place.conversation(id) if continues or id else None
    loaded = load_for(place, Flags(cfg=cfg))
    words = line_here(loaded.settings.prompt.mode, place.root, COMMANDS, offers)
    note("midturn: type /help for commands, Ctrl-D to quit.")
    if not (model or conversation or loaded.settings.assistant.model.id):
        note(
            "midturn: {}",
            model_to_be_trusted(loaded)
            or "no model is configured. To select one: `/model PROVIDER/MODEL`",
        )
    query = Query(text=(), model=model, toggles=toggles, cfg=cfg, store=store)
    return Chat(place, words, query, conversation).run()


# --------------------------------------------------------------------------------------------------
# Forks


_FORK = re.compile(r" \(fork(?: (?P<number>[0-9]{1,4}))?\)\Z")


def fork(place: CommandContext, source: str, turns: int | None = None) -> str:
    """Copy the finished turns of a conversation, make the copy current, and return its ID.

    `turns` limits the copy to the first turns.
    """
    forked = place.store.fork_sync(source, turns)
    place.run(place.port.describe(forked, title=fork_title(place.store.read_sync(source).title)))
    place.set_current(forked)
    return forked


def fork_title(title: str) -> str:
    """Return the title of a fork: `Plan` becomes `Plan (fork)`, then `Plan (fork 2)`."""
    found = _FORK.search(title)
    if found is None:
        return f"{title} (fork)".strip()
    return f"{title[: found.start()]} (fork {int(found['number'] or 1) + 1})"


# --------------------------------------------------------------------------------------------------
# The loop of turns and `/` commands


COMMANDS = {
    "/help": "list commands",
    "/tools": "list tools; `/tools NAME` shows one",
    "/model": "show the model; `/model PROVIDER/MODEL` selects another",
    "/inbox": "list open questions of all conversations; `/inbox --all` of all workspaces",
    "/show": "show this conversation; `/show --inquiries` shows questions and who answered",
    "/retry": "continue the open turn after an error",
    "/resume": "like /retry; `/resume ID` continues another conversation",
    "/clear": "start a new conversation; this one is kept",
    "/compact": (
        "continue in a new conversation from a summary, which you see first; this one is kept"
    ),
    "/undo": "remove the last turn (in a copy; this conversation is kept)",
    "/fork": "continue in a copy; this conversation is kept",
    "/rules": "list your rules for calls; `/rules remove N` removes one",
    "/config": "show the configuration; `/config explain KEY` shows where a key is set",
    "/quit": "quit (or press Ctrl-D)",
}
_INTERRUPTED = 130
_MAX_ANNOUNCED = 100  # maximum number of open questions read before each prompt


class Chat:
    """A conversation at the terminal. `query` contains the flags for every turn."""

    def __init__(
        self, place: CommandContext, line_reader: ChatLine, query: Query, conversation: str | None
    ) -> None:
        self._place = place
        self._line_reader = line_reader
        self._query = query
        self._named = query.model
        self._conversation = conversation
        self._announced: set[str] = set()
        self._servers = Servers()
        self._draft = ""
        """Text that was typed but not sent. The next prompt starts with it."""
        self._queued: list[Message] = []
        """Messages that were sent while a turn was running.

        They are sent next, unless the turn fails.
        """
        self._went_well = True

    def run(self) -> ExitStatus:
        """Run until the user quits."""
        with self._servers, HUSH.during_chat(self._line_reader.ahead):
            return self._talk()

    def _talk(self) -> ExitStatus:
        if self._conversation is not None:
            self._safely(self._resume)
            self._take_typed()
        while True:
            try:
                said = self._next()
            except KeyboardInterrupt:
                note("midturn: press Ctrl-D to quit.")
                continue
            except EOFError:
                return ExitStatus.DONE
            if said.split(maxsplit=1)[:1] == ["/quit"]:
                return ExitStatus.DONE
            if said:
                self._safely(self._handle, said)
                self._take_typed()

    def _next(self) -> str:
        """Return the next message: a queued message, or the next line."""
        if self._queued:
            message = self._queued.pop(0)
            if message.text == LEAVES:
                raise EOFError
            self._line_reader.keep(message.text)
            note(line("\n> {}", presented(message.shown)))
            return message.text.strip()
        self._announce()
        typed = self._line_reader.ahead.take_line() if self._line_reader.ahead else ""
        draft, self._draft = "\n".join(filter(None, (self._draft, typed))), ""
        return self._line_reader.read(draft).strip()

    def _take_typed(self) -> None:
        """Queue the messages that were sent during the turn.

        If the turn failed or was ended, keep them as a draft instead.
        """
        self._queued += self._line_reader.ahead.take_messages() if self._line_reader.ahead else ()
        if not self._went_well:
            self._draft = "\n".join(
                filter(None, (self._draft, *(message.text for message in self._queued)))
            )
            self._queued.clear()

    def _handle(self, said: str) -> None:
        self._went_well = True
        if said.startswith("/") and self._is_command(said):
            self._command(said)
        elif said.startswith("!") and not said.startswith("!!"):
            self._run_own(said.removeprefix("!").strip())
        else:
            self._turn(said[1:] if said.startswith(("//", "!!")) else said)

    def _safely(self, work: Callable[..., object], *given: str) -> None:
        """Run a function and print its errors. An error or Ctrl-C does not end the chat."""
        reset = LEAVE_PASTES if self._line_reader.ahead else ""
        try:
            with open_device() as device, Restored(device, reset):
                work(*given)
        except TerminalGone:
            raise
        except SystemExit as stop:
            if stop.code != _INTERRUPTED:
                raise
        except (KeyboardInterrupt, click.Abort):
            note("midturn: stopped.")
        except click.ClickException as error:
            note(line("midturn: {}", block(error.format_message())))
        except MidturnError as error:
            note(line("midturn: {}", block(str(error))))

    def _resume(self) -> None:
        """Print the conversation, and handle a turn that is still open.

        A turn is left open by a crash, a closed window or a suspension.
        """
        note(
            "midturn: continuing conversation {}: {}",
            self._require_conversation(),
            self._place.store.read_sync(self._require_conversation()).title,
        )
        with ConversationLock.existing(self._place, self._require_conversation()) as held:
            status = resolve_open_turn(self._place, held, attached=True, offer=BEFORE_A_CHAT)
        self._after(status)

    def _turn(self, said: str) -> None:
        self._went_well = False
        self._draft = said
        around = TurnEnvironment(
            opened=self._set_conversation, sent=self._sent, servers=self._servers, offer=IN_A_CHAT
        )
        if self._conversation is None:
            status = begin(self._query, self._place, TurnRequested(said), around)
        else:
            query = structs.replace(self._query, id=self._conversation)
            with ConversationLock.existing(self._place, self._conversation) as held:
                status = continue_conversation(
                    query, self._place, held, TurnRequested(said), around
                )
        self._after(status)

    def _sent(self) -> None:
        self._draft = ""
        self._query = structs.replace(
            self._query, model=None
        )  # the model is recorded now, so it also applies to the following turns

    def _after(self, status: ExitStatus | None) -> None:
        """Offer to retry while the turn fails and stays open. After the turn has ended, send the
        draft.
        """
        while status is ExitStatus.ERROR and self._conversation is not None:
            with ConversationLock.existing(self._place, self._conversation) as held:
                if open_turn(held.events) is None:
                    return
                status = resolve_open_turn(self._place, held, attached=True, offer=AFTER_A_FAILURE)
                is_over = open_turn(held.events) is None
            if is_over and self._draft:
                self._turn(self._draft)
                return
        self._went_well = status in (None, ExitStatus.DONE, ExitStatus.REFUSED)

    def _retry(self) -> None:
        """Resume the open turn (`/retry`)."""
        self._went_well = False
        with ConversationLock.existing(self._place, self._require_conversation()) as held:
            if open_turn(held.events) is None:
                raise click.UsageError("No turn is open in this conversation.")
            check_is_ours(held, self._place.option)
            status = resume_held(self._place, held, attached=True, again=IN_A_CHAT.again)
        self._after(status)

    def _run_own(self, command: str) -> None:
        """Run the user's shell command, and record it in the conversation.

        If there is no conversation yet, start one.
        """
        if self._conversation is not None:
            with ConversationLock.existing(self._place, self._conversation) as held:
                check_is_free(held)
                record(held, self._place, run_own(command))
            return
        self._begin(command, run_own(command))

    def _begin(self, title: str, said: str) -> None:
        """Start a conversation with recorded text. No request is sent to a model."""
        with ConversationLock.new(self._place, title) as held:
            self._place.set_current(held.conversation)
            self._conversation = held.conversation
            record(held, self._place, said)

    def _compact(self) -> None:
        """Continue with a summary in a new conversation. The old conversation is not changed."""
        old = self._require_conversation()
        with ConversationLock.existing(self._place, old) as held:
            check_is_free(held)
        said = summary(self._place, self._query, old)
        if said is not None:
            self._begin(self._place.store.read_sync(old).title, said)
            self._query = structs.replace(self._query, model=self._named)
            report_move(old, self._require_conversation())

    def _set_conversation(self, conversation: str) -> None:
        self._conversation = conversation

    def _announce(self) -> None:
        """Print a line about new open questions in other conversations.

        Each question is announced once.
        """
        waiting = self._place.store.pending_sync(limit=_MAX_ANNOUNCED)
        new = [
            question
            for question in waiting
            if question.conversation != self._conversation and question.id not in self._announced
        ]
        self._announced.update(question.id for question in new)
        match new:
            case []:
                pass
            case [question]:
                note(
                    "midturn: {} asks in another conversation: {}  (/inbox)",
                    question.source.header,
                    question.question.text,
                )
            case _:
                more = "+" if len(waiting) == _MAX_ANNOUNCED else ""
                note(
                    "midturn: {}{} open questions in other conversations  (/inbox)", len(new), more
                )

    def _is_command(self, said: str) -> bool:
        """Return whether text that starts with a slash is a command.

        It is a path if its first word contains another slash.
        """
        return said.split(maxsplit=1)[0].count("/") == 1

    def _command(self, said: str) -> None:  # noqa: C901, PLR0912  one line per command
        try:
            name, *rest = shlex.split(said)
        except ValueError as error:  # a quotation mark is not closed
            raise click.UsageError(f"{said.split(maxsplit=1)[0]}: {str(error).lower()}.") from error
        match name:
            case "/help":
                _help(self._line_reader.keys)
            case "/tools":
                _run("tools", *(["show", *rest] if rest else ["ls"]))
            case "/model":
                self._model(rest)
            case "/inbox":
                _run("inbox", *rest, *self._store)
            case "/show":
                _run("conversation", "show", self._require_conversation(), *rest, *self._store)
            case "/undo":
                self._undo()
            case "/resume" | "/retry" if not rest:
                self._retry()
            case "/resume" | "/retry":
                self._switch_to(self._place.conversation(rest[0]))
                self._resume()
            case "/clear":
                self._clear()
            case "/compact":
                self._compact()
            case "/fork":
                self._switch_to(fork(self._place, self._require_conversation()))
            case "/rules":
                _run(
                    "tools", "rules", *(["--remove", *rest[1:]] if rest[:1] == ["remove"] else rest)
                )
            case "/config":
                _run("config", *(rest or ["show"]))
            case _:
                raise click.UsageError(
                    f"There is no command {name}.{did_you_mean(name, list(COMMANDS))} Type `/help`"
                    " for a list."
                )

    @property
    def _store(self) -> Sequence[str]:
        return self._query.store.options if self._query.store else ()

    def _model(self, named: Sequence[str]) -> None:
        events = (
            self._place.store.read_sync(self._conversation).events if self._conversation else ()
        )
        settings = load_for(self._place, Flags(cfg=self._query.cfg), events).settings
        if named:
            refuse_unusable(named[0], settings.llm)
            self._named = named[0]
            self._query = structs.replace(self._query, model=named[0])
            note("midturn: the model is now {}.", named[0])
            return
        used = self._query.model or settings.assistant.model.id
        note("midturn: the model is {}.", used or "not configured")
        note("To select another: `/model PROVIDER/MODEL`. To list models: `midturn models`")

    def _undo(self) -> None:
        """Continue without the last turn: in a copy of the earlier turns, or in a new
        conversation.
        """
        turns = len(self._place.store.read_sync(self._require_conversation()).turns)
        if turns > 1:
            self._switch_to(fork(self._place, self._require_conversation(), turns - 1))
            return
        note("midturn: that was the first turn.")
        self._clear()

    def _clear(self) -> None:
        """Start a new conversation with the next message."""
        note("midturn: your next message starts a new conversation.")
        self._conversation = None
        self._query = structs.replace(self._query, model=self._named)

    def _switch_to(self, conversation: str) -> None:
        note(
            "midturn: continuing in conversation {}; {} is kept.",
            conversation,
            self._require_conversation(),
        )
        self._conversation = conversation

    def _require_conversation(self) -> str:
        if self._conversation is None:
            raise click.UsageError("There is no conversation yet.")
        return self._conversation


def _help(keys: str) -> None:
    for row in table(
        [(line("  {}", name), line("{}", what)) for name, what in COMMANDS.items()], sys.stderr
    ):
        note(row)
    note(
        "{} Ctrl-C ends the turn, not the chat. `!COMMAND` runs a shell command. `//` and `!!` send"
        " a line that starts with `/` or `!`.",
        keys,
    )


def _run(*arguments: str) -> None:
    """Run a midturn command."""
    run(arguments)
