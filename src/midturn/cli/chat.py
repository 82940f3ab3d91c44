"""`midturn chat`: a loop of turns in one conversation."""

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
from midturn.cli.command_context import Place, StoreAddress, environment, find_place
from midturn.cli.loading import Flags, load_for, model_to_be_trusted
from midturn.cli.local_turns import check_is_free, record, run_own, said_of_move, summary
from midturn.cli.locked import Held, is_attached
from midturn.cli.main import run
from midturn.cli.options import LOCAL, with_id, with_model, with_store, without
from midturn.cli.output import ExitStatus, block, line, note, presented, table
from midturn.cli.query import Around, Query, begin, go_on
from midturn.cli.resume import AFTER_A_FAILURE, BEFORE_A_CHAT, IN_A_CHAT, check_is_ours, resolve_open_turn, resume_held
from midturn.cli.turn_flags import TogglingCommand, with_toggles
from midturn.config.settings import Toggle
from midturn.errors import MidturnError, TerminalGone
from midturn.events.window import open_turn
from midturn.question.text import did_you_mean
from midturn.terminal.device import HUSH, Restored, open_device
from midturn.terminal.typed_ahead import LEAVE_PASTES, LEAVES, Message
from midturn.turn.step import TurnRequested

# ----------------------------------------------------------------------------------------------------------------------
# `midturn chat`: a loop of turns in one conversation


@click.command(cls=TogglingCommand)
@click.option("-c", "--continue", "continues", is_flag=True, help="Go on with the current conversation.")
@with_id("Go on with this conversation.")
@with_model
@with_toggles
@click.option("--cfg", multiple=True, metavar="KEY=VALUE|FILE", help="Set a key of the configuration, or read a file of keys.")
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
    """Talk with the assistant, turn after turn. `/help` lists what else there is."""
    if not is_there() or not is_attached(environment(), non_interactive=False):
        raise click.UsageError('A chat needs a terminal. `midturn query "…"` asks without one.')
    if continues and id:
        raise click.UsageError("`--continue` is for the current conversation, `--id` for another: give one of them.")
    place = find_place(store)
    conversation = place.conversation(id) if continues or id else None
    loaded = load_for(place, Flags(cfg=cfg))
    words = line_here(loaded.settings.prompt.mode, place.root, COMMANDS, offers)
    note("midturn: /help lists the commands, Ctrl-D leaves.")
    if not (model or conversation or loaded.settings.assistant.model.id):
        note("midturn: {}", model_to_be_trusted(loaded) or "no model is set: `/model PROVIDER/MODEL` names one.")
    query = Query(text=(), model=model, toggles=toggles, cfg=cfg, store=store)
    return Chat(place, words, query, conversation).run()


# ----------------------------------------------------------------------------------------------------------------------
# A copy of a conversation, under a title that tells it from the original


_FORK = re.compile(r" \(fork(?: (?P<number>[0-9]{1,4}))?\)\Z")


def fork(place: Place, source: str, turns: int | None = None) -> str:
    """Copy the finished turns of a conversation (the first `turns`), make the copy the current one, and return its id."""
    made = place.store.fork_sync(source, turns)
    place.run(place.port.describe(made, title=fork_title(place.store.read_sync(source).title)))
    place.set_current(made)
    return made


def fork_title(title: str) -> str:
    """Return the title of a fork: `Plan` becomes `Plan (fork)`, and that one `Plan (fork 2)`."""
    found = _FORK.search(title)
    if found is None:
        return f"{title} (fork)".strip()
    return f"{title[: found.start()]} (fork {int(found['number'] or 1) + 1})"


# ----------------------------------------------------------------------------------------------------------------------
# Turn after turn in one conversation, with `/` commands between them


COMMANDS = {
    "/help": "these commands",
    "/tools": "the tools that the assistant has; `/tools NAME` shows one",
    "/model": "which model answers; `/model PROVIDER/MODEL` names another",
    "/inbox": "the open questions of all conversations; `/inbox --all` of all workspaces",
    "/show": "this conversation so far; `/show --inquiries` who answered what, and why",
    "/retry": "go on with the turn that is open, after an error",
    "/resume": "the same; `/resume ID` goes on with another conversation",
    "/clear": "begin a new conversation; this one stays as it is",
    "/compact": "go on from a summary by the model, which you see first; this conversation stays as it is",
    "/undo": "go on as if the last turn had not been (it stays in a conversation of its own)",
    "/fork": "go on in a copy; this conversation stays as it is",
    "/rules": "your own rules about calls; `/rules remove N` removes one",
    "/config": "the configuration; `/config explain KEY` says who set a key",
    "/quit": "leave; so does Ctrl-D",
}
_INTERRUPTED = 130
_ANNOUNCED = 100  # questions that are looked at before one prompt


class Chat:
    """One conversation and the person who talks; `query` has the flags that hold for every turn."""

    def __init__(self, place: Place, words: ChatLine, query: Query, conversation: str | None) -> None:
        self._place = place
        self._words = words
        self._query = query
        self._named = query.model
        self._conversation = conversation
        self._announced: set[str] = set()
        self._servers = Servers()
        self._draft = ""
        """Text typed and not sent: it stands in the next line."""
        self._queued: list[Message] = []
        """Messages sent while a turn ran: they are said next, as long as all goes well."""
        self._went_well = True

    def run(self) -> ExitStatus:
        """Talk until the person leaves."""
        with self._servers, HUSH.during_chat(self._words.ahead):
            return self._talk()

    def _talk(self) -> ExitStatus:
        if self._conversation is not None:
            self._safely(self._resume)
            self._take_typed()
        while True:
            try:
                said = self._next()
            except KeyboardInterrupt:
                note("midturn: Ctrl-D leaves.")
                continue
            except EOFError:
                return ExitStatus.DONE
            if said.split(maxsplit=1)[:1] == ["/quit"]:
                return ExitStatus.DONE
            if said:
                self._safely(self._heard, said)
                self._take_typed()

    def _next(self) -> str:
        """Return what is said next: what waits for its turn, or the next line."""
        if self._queued:
            message = self._queued.pop(0)
            if message.text == LEAVES:
                raise EOFError
            self._words.keep(message.text)
            note(line("\n> {}", presented(message.shown)))
            return message.text.strip()
        self._announce()
        begun = self._words.ahead.take_line() if self._words.ahead else ""
        draft, self._draft = "\n".join(filter(None, (self._draft, begun))), ""
        return self._words.read(draft).strip()

    def _take_typed(self) -> None:
        """Take over the messages that were sent meanwhile; after a turn that was ended, or that failed, none is sent unseen."""
        self._queued += self._words.ahead.take_messages() if self._words.ahead else ()
        if not self._went_well:
            self._draft = "\n".join(filter(None, (self._draft, *(message.text for message in self._queued))))
            self._queued.clear()

    def _heard(self, said: str) -> None:
        self._went_well = True
        if said.startswith("/") and self._is_command(said):
            self._command(said)
        elif said.startswith("!") and not said.startswith("!!"):
            self._run_own(said.removeprefix("!").strip())
        else:
            self._turn(said[1:] if said.startswith(("//", "!!")) else said)

    def _safely(self, work: Callable[..., object], *given: str) -> None:
        """Do something: what goes wrong ends it, and not the loop; neither does Ctrl-C."""
        farewell = LEAVE_PASTES if self._words.ahead else ""
        try:
            with open_device() as device, Restored(device, farewell):
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
        """Say which conversation this is, and deal with a turn that was left open: a crash, a closed window, a question that waits."""
        note("midturn: going on in conversation {}: {}", self._known(), self._place.store.read_sync(self._known()).title)
        with Held.existing(self._place, self._known()) as held:
            status = resolve_open_turn(self._place, held, attached=True, offer=BEFORE_A_CHAT)
        self._after(status)

    def _turn(self, said: str) -> None:
        self._went_well = False
        self._draft = said
        around = Around(opened=self._opened, sent=self._sent, servers=self._servers, offer=IN_A_CHAT)
        if self._conversation is None:
            status = begin(self._query, self._place, TurnRequested(said), around)
        else:
            query = structs.replace(self._query, id=self._conversation)
            with Held.existing(self._place, self._conversation) as held:
                status = go_on(query, self._place, held, TurnRequested(said), around)
        self._after(status)

    def _sent(self) -> None:
        self._draft = ""
        self._query = structs.replace(self._query, model=None)  # it is on record now, and holds for what follows

    def _after(self, status: ExitStatus | None) -> None:
        """Offer to try again for as long as the turn fails and stays open; what was typed meanwhile is sent when it is over."""
        while status is ExitStatus.ERROR and self._conversation is not None:
            with Held.existing(self._place, self._conversation) as held:
                if open_turn(held.events) is None:
                    return
                status = resolve_open_turn(self._place, held, attached=True, offer=AFTER_A_FAILURE)
                is_over = open_turn(held.events) is None
            if is_over and self._draft:
                self._turn(self._draft)
                return
        self._went_well = status in (None, ExitStatus.DONE, ExitStatus.REFUSED)

    def _again(self) -> None:
        """Go on with the open turn at once."""
        self._went_well = False
        with Held.existing(self._place, self._known()) as held:
            if open_turn(held.events) is None:
                raise click.UsageError("No turn is open in this conversation.")
            check_is_ours(held, self._place.option)
            status = resume_held(self._place, held, attached=True, again=IN_A_CHAT.again)
        self._after(status)

    def _run_own(self, command: str) -> None:
        """Run a command of the person's, and record it: behind what was said, or as the beginning of a conversation."""
        if self._conversation is not None:
            with Held.existing(self._place, self._conversation) as held:
                check_is_free(held)
                record(held, self._place, run_own(command))
            return
        self._begin(command, run_own(command))

    def _begin(self, title: str, said: str) -> None:
        """Begin a conversation with something that no model is asked about."""
        with Held.new(self._place, title) as held:
            self._place.set_current(held.conversation)
            self._conversation = held.conversation
            record(held, self._place, said)

    def _compact(self) -> None:
        """Go on from a summary in a new conversation; this one stays as it is."""
        old = self._known()
        with Held.existing(self._place, old) as held:
            check_is_free(held)
        said = summary(self._place, self._query, old)
        if said is not None:
            self._begin(self._place.store.read_sync(old).title, said)
            self._query = structs.replace(self._query, model=self._named)
            said_of_move(old, self._known())

    def _opened(self, conversation: str) -> None:
        self._conversation = conversation

    def _announce(self) -> None:
        """Say in one row which questions wait in other conversations; each is told of once."""
        waiting = self._place.store.pending_sync(limit=_ANNOUNCED)
        new = [one for one in waiting if one.conversation != self._conversation and one.id not in self._announced]
        self._announced.update(one.id for one in new)
        match new:
            case []:
                pass
            case [question]:
                note("midturn: {} asks in another conversation: {}  (/inbox)", question.source.header, question.question.text)
            case _:
                more = "+" if len(waiting) == _ANNOUNCED else ""
                note("midturn: {}{} questions wait in other conversations  (/inbox)", len(new), more)

    def _is_command(self, said: str) -> bool:
        """Tell a command from words that begin with a slash: a path has another one."""
        return said.split(maxsplit=1)[0].count("/") == 1

    def _command(self, said: str) -> None:  # noqa: C901, PLR0912  one line a command
        try:
            name, *rest = shlex.split(said)
        except ValueError as error:  # a quotation that is not closed
            raise click.UsageError(f"{said.split(maxsplit=1)[0]}: {str(error).lower()}.") from error
        match name:
            case "/help":
                _help(self._words.keys)
            case "/tools":
                _run("tools", *(["show", *rest] if rest else ["ls"]))
            case "/model":
                self._model(rest)
            case "/inbox":
                _run("inbox", *rest, *self._store)
            case "/show":
                _run("conversation", "show", self._known(), *rest, *self._store)
            case "/undo":
                self._undo()
            case "/resume" | "/retry" if not rest:
                self._again()
            case "/resume" | "/retry":
                self._go_to(self._place.conversation(rest[0]))
                self._resume()
            case "/clear":
                self._clear()
            case "/compact":
                self._compact()
            case "/fork":
                self._go_to(fork(self._place, self._known()))
            case "/rules":
                _run("tools", "rules", *(["--remove", *rest[1:]] if rest[:1] == ["remove"] else rest))
            case "/config":
                _run("config", *(rest or ["show"]))
            case _:
                raise click.UsageError(f"There is no command {name}.{did_you_mean(name, list(COMMANDS))} `/help` lists them.")

    @property
    def _store(self) -> Sequence[str]:
        return self._query.store.options if self._query.store else ()

    def _model(self, named: Sequence[str]) -> None:
        events = self._place.store.read_sync(self._conversation).events if self._conversation else ()
        settings = load_for(self._place, Flags(cfg=self._query.cfg), events).settings
        if named:
            refuse_unusable(named[0], settings.llm)
            self._named = named[0]
            self._query = structs.replace(self._query, model=named[0])
            note("midturn: {} answers from now on.", named[0])
            return
        used = self._query.model or settings.assistant.model.id
        note("midturn: {} answers.", used or "no model")
        note("`/model PROVIDER/MODEL` names another; `midturn models` lists them.")

    def _undo(self) -> None:
        """Go on before the last turn: in a copy of what was before it, or in a new conversation."""
        turns = len(self._place.store.read_sync(self._known()).turns)
        if turns > 1:
            self._go_to(fork(self._place, self._known(), turns - 1))
            return
        note("midturn: that was the first turn.")
        self._clear()

    def _clear(self) -> None:
        """Leave the conversation as it is, and begin another with what is said next."""
        note("midturn: what you say next begins a new conversation.")
        self._conversation = None
        self._query = structs.replace(self._query, model=self._named)

    def _go_to(self, conversation: str) -> None:
        note("midturn: going on in conversation {}; {} stays as it is.", conversation, self._known())
        self._conversation = conversation

    def _known(self) -> str:
        if self._conversation is None:
            raise click.UsageError("Nothing was said yet.")
        return self._conversation


def _help(keys: str) -> None:
    for row in table([(line("  {}", name), line("{}", what)) for name, what in COMMANDS.items()], sys.stderr):
        note(row)
    note("{} Ctrl-C ends the turn, not the chat. `!COMMAND` runs in your shell. `//` and `!!` begin a line with `/` and `!`.", keys)


def _run(*arguments: str) -> None:
    """Run a command of ours as the command line does."""
    run(arguments)
