"""`midturn`: finds the command, and turns every error into a message and an exit status."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from midturn import __version__
from midturn.cli.lazy import COMPLETING, CommandEntry, LazyGroup, with_help
from midturn.cli.output import ExitStatus, Shown, block, flush_stdout, forget_stdout, line, note, say
from midturn.errors import ConfigError, MidturnError, TerminalGone
from midturn.plugins import Registry

_OWN = ("-h", "--help", "--version")
STDOUT_GONE = 128 + 13  # SIGPIPE, as a shell says it of other programs
SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Ask": {
        "chat": CommandEntry("midturn.cli.chat", "Talk, turn after turn; `midturn` alone is the same."),
        "query": CommandEntry("midturn.cli.query", 'Ask; `midturn "two words"` is the same.'),
        "resume": CommandEntry("midturn.cli.resume", "Go on with a turn that waits or was interrupted."),
        "worker": CommandEntry("midturn.cli.worker", "Go on with turns whose questions are answered."),
        "demo": CommandEntry("midturn.cli.demo.command", "See the whole thing, without any key."),
    },
    "Answer": {
        "inbox": CommandEntry("midturn.cli.inbox", "List the open questions."),
        "answer": CommandEntry("midturn.cli.answer", "Answer one of them."),
        "serve": CommandEntry("midturn.cli.serve", "Show them on a web page, also on your phone."),
        "channels": CommandEntry("midturn.cli.channels:channels", "Answer them where you are: Telegram, Slack, mail."),
        "people": CommandEntry("midturn.cli.channels:people", "Say which accounts there are whose."),
    },
    "Look": {
        "conversation": CommandEntry("midturn.cli.conversation", "Show, search, move and remove conversations."),
        "tools": CommandEntry("midturn.cli.tools", "Show the tools, or run one by hand."),
        "models": CommandEntry("midturn.cli.models", "List the models that are reachable."),
        "doctor": CommandEntry("midturn.cli.doctor", "Find out what works here."),
    },
    "Connect": {
        "hook": CommandEntry("midturn.cli.hook", "Carry the questions of other agents to your inbox."),
        "mcp": CommandEntry("midturn.cli.mcp", "Let any agent ask you: a server of the Model Context Protocol."),
        "acp": CommandEntry("midturn.cli.acp", "Talk in your editor (ACP); run other people's agents, too."),
    },
    "Set up": {
        "init": CommandEntry("midturn.cli.init", "Make this directory a workspace."),
        "config": CommandEntry("midturn.cli.config", "Show and change the configuration."),
        "trust": CommandEntry("midturn.cli.trust", "Approve what the workspace's files enable."),
        "workspace": CommandEntry("midturn.cli.workspace", "Look after the conversations of every workspace."),
        "store": CommandEntry("midturn.cli.store", "Look after conversations in PostgreSQL."),
        "completions": CommandEntry("midturn.cli.completing", "Print completions for your shell."),
    },
}


MEANINGS: Mapping[str, str] = {
    **dict.fromkeys(("ask", "run", "prompt", "say", "exec"), "query"),
    **dict.fromkeys(("questions", "pending", "waiting", "todo", "open"), "inbox"),
    **dict.fromkeys(("reply", "respond", "approve", "accept", "deny", "reject"), "answer"),
    **dict.fromkeys(("continue", "go", "carry-on", "recover"), "resume"),
    **dict.fromkeys(("history", "log", "logs", "sessions", "threads", "list", "ls"), "conversation ls"),
    **dict.fromkeys(("show", "print", "transcript"), "conversation show"),
    **{name: f"conversation {name}" for name in ("export", "fork", "import", "path")},
    **dict.fromkeys(("grep", "search", "find"), "conversation grep"),
    **dict.fromkeys(("rm", "delete", "remove"), "conversation rm"),
    **dict.fromkeys(("tool", "functions"), "tools"),
    **dict.fromkeys(("model", "providers"), "models"),
    **dict.fromkeys(("settings", "set", "get", "options"), "config"),
    **dict.fromkeys(("setup", "new", "install", "start"), "init"),
    **dict.fromkeys(("talk", "repl", "shell", "interactive"), "chat"),
    **dict.fromkeys(("web", "ui", "server", "dashboard"), "serve"),
    **dict.fromkeys(("check", "status", "diagnose", "health"), "doctor"),
    **dict.fromkeys(("work", "daemon", "watch"), "worker"),
    **dict.fromkeys(("completion", "complete", "autocomplete"), "completions"),
    **dict.fromkeys(("db", "database", "postgres", "migrate"), "store"),
    **dict.fromkeys(("hooks", "claude", "codex", "gemini", "qwen"), "hook"),
    **dict.fromkeys(("allow",), "trust"),
    **dict.fromkeys(("workspaces", "project", "projects"), "workspace"),
    **dict.fromkeys(("example", "tour", "try"), "demo"),
    "version": "--version",
    "help": "help",
}


SHORTCUTS: Mapping[str, str] = {"q": "query", "c": "conversation"}


def _is_command(found: object, _name: str) -> bool:
    return isinstance(found, click.Command)


COMMANDS: Registry[click.Command] = Registry(
    kind="command",
    built_in=(*SHORTCUTS, *(name for section in SECTIONS.values() for name in section)),
    fits=_is_command,
    ought="a command of click",
)
"""Commands that packages add."""


class AllCommands(LazyGroup):
    """All commands. Several words in one argument are a query: `midturn "two words"`."""

    sections = SECTIONS
    shortcuts = SHORTCUTS
    meanings = MEANINGS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `midturn -c "two words"` for a query, and `help COMMAND` for `COMMAND --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        if args and args[0].startswith("-") and args[0] not in _OWN:
            if any(_is_words(word) for word in args):
                args = ["query", *args]
            elif found := [name for name in ("chat", "query") if self._takes(ctx, name, args[0])]:
                ways = " or ".join(f"`midturn {name} {args[0]}`" for name in found)
                raise click.UsageError(f"`{args[0]}` goes after a command: write {ways}.", ctx)
        return super().parse_args(ctx, args)

    def _takes(self, ctx: click.Context, name: str, option: str) -> bool:
        command = self.get_command(ctx, name)
        return command is not None and any(option in param.opts for param in command.params)

    @property
    def added(self) -> Mapping[str, str]:
        """The commands that packages add."""
        return COMMANDS.added

    def from_a_package(self, name: str) -> click.Command:
        """Load a command that a package adds."""
        return with_help(COMMANDS.load(name))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, and start the log for it."""
        from midturn.cli.log import begin_command  # help and version log nothing

        begin_command(os.environ)
        found = ("query", self.get_command(ctx, "query"), args) if _is_words(args[0]) else super().resolve_command(ctx, args)
        if not gc.isenabled():  # what was loaded stays: the collector need not look at it again
            gc.freeze()
            gc.enable()
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that is gone is no error of ours."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            forget_stdout()
            raise click.exceptions.Exit(STDOUT_GONE) from None

    def advice(self, unknown: str) -> str:
        """Show how a single word is asked."""
        return f' To ask something, write `midturn query "{unknown} …"`; `midturn --help` lists the commands.'


def _is_words(argument: str) -> bool:
    """Tell words that are asked from the name of a command."""
    return not argument.startswith("-") and any(letter.isspace() for letter in argument)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    if value:
        say("midturn {}", __version__)
        ctx.exit()


@with_help
@click.command(
    cls=AllCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? `midturn demo` shows what this is, `midturn init` sets it up.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Say which version this is.")
def midturn() -> None:
    """Ask the right person in the middle of an agent's turn, and lose nothing."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status. No error ends in a traceback."""
    try:
        status = _run(arguments)
        flush_stdout()
    except BrokenPipeError:
        forget_stdout()
        return STDOUT_GONE
    return status


def _run(arguments: Sequence[str] | None) -> int:  # noqa: PLR0911  one return a kind of ending
    try:
        given = list(sys.argv[1:] if arguments is None else arguments) or _alone()
        status = midturn.main(args=given, prog_name="midturn", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        note(_usage(error))
        return ExitStatus.USAGE
    except ConfigError as error:
        note(line("midturn: {}", block(str(error))))
        return ExitStatus.USAGE
    except MidturnError as error:
        note(line("midturn: {}", block(str(error))))
        return ExitStatus.TERMINAL_GONE if isinstance(error, TerminalGone) else ExitStatus.ERROR
    except (KeyboardInterrupt, click.Abort):
        return ExitStatus.ENDED_BY_USER
    except Exception as error:  # noqa: BLE001  whatever it is, it is said in a line, and kept in the log
        return _unexpected(error)
    return status if isinstance(status, int) else ExitStatus.DONE


def _alone() -> list[str]:
    """Return what `midturn` alone means: a chat where a person is at a terminal and a model is set, else the help.

    A shell that completes a line runs it so, too, and bash does on the terminal itself.
    """
    if COMPLETING in os.environ or not (sys.stdin and sys.stderr and sys.stdin.isatty() and sys.stderr.isatty()):
        return []
    from midturn.cli.asking import begun_alone

    return begun_alone(lambda: midturn.main(args=["init"], prog_name="midturn", standalone_mode=False))


def _usage(error: click.ClickException) -> Shown:
    context = cast("click.Context | None", getattr(error, "ctx", None))
    if isinstance(error, click.NoSuchOption) and error.possibilities and context:  # what is refused is no advice
        gone = {flag for option in context.command.params if getattr(option, "hidden", False) for flag in option.opts}
        error = click.NoSuchOption(error.option_name, error.message, [flag for flag in error.possibilities if flag not in gone], error.ctx)
    said = error.format_message()
    message = block(said.replace("\n\t", " ") if isinstance(error, click.MissingParameter) else said)  # click lists choices in rows
    if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
        return message
    return line("midturn: {}\nTry `{} --help`.", message, context.command_path) if context else line("midturn: {}", message)


def _unexpected(error: Exception) -> int:
    from midturn.cli.log import tell_unexpected

    if isinstance(error, FileNotFoundError) and _is_directory_gone():
        note("midturn: The directory that this was started in does not exist any more. Change to another one.")
        return ExitStatus.ERROR
    tell_unexpected(error)
    return ExitStatus.ERROR


def _is_directory_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  that it fails is the answer
    except FileNotFoundError:
        return True
    return False
