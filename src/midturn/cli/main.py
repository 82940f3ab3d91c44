"""The command `midturn`: select the subcommand, and convert errors to messages and exit
statuses.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from midturn import __version__
from midturn.cli.lazy import COMPLETING, CommandEntry, LazyGroup, with_help
from midturn.cli.output import (
    ExitStatus,
    Shown,
    block,
    fail,
    flush_stdout,
    forget_stdout,
    line,
    note,
    say,
)
from midturn.errors import ConfigError, MidturnError, TerminalGone
from midturn.plugins import Registry

_GLOBAL_OPTIONS = ("-h", "--help", "--version")
STDOUT_GONE = 128 + 13  # the status that shells report for SIGPIPE
SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Run": {
        "chat": CommandEntry("midturn.cli.chat", "Start a conversation (default command)"),
        "query": CommandEntry("midturn.cli.query", "Run one turn"),
        "resume": CommandEntry("midturn.cli.resume", "Continue an open turn"),
        "worker": CommandEntry("midturn.cli.worker", "Run a worker that continues turns"),
        "demo": CommandEntry("midturn.cli.demo.command", "Play a demo, without an API key"),
    },
    "Answer": {
        "inbox": CommandEntry("midturn.cli.inbox", "List open questions"),
        "answer": CommandEntry("midturn.cli.answer", "Answer a question"),
        "serve": CommandEntry("midturn.cli.serve", "Serve a web page with the open questions"),
        "channels": CommandEntry(
            "midturn.cli.channels:channels", "Answer from Telegram, Slack, e-mail, ..."
        ),
        "people": CommandEntry("midturn.cli.channels:people", "Manage the chat accounts of people"),
    },
    "Inspect": {
        "conversation": CommandEntry(
            "midturn.cli.conversation", "Show, search, export and delete conversations"
        ),
        "tools": CommandEntry("midturn.cli.tools", "List, inspect and run tools"),
        "models": CommandEntry("midturn.cli.models", "List available models"),
        "doctor": CommandEntry("midturn.cli.doctor", "Check installation and configuration"),
    },
    "Connect": {
        "hook": CommandEntry("midturn.cli.hook", "Connect coding agents to your inbox"),
        "mcp": CommandEntry("midturn.cli.mcp", "Run an MCP server that asks you questions"),
        "acp": CommandEntry("midturn.cli.acp", "Run in an editor, or run an ACP agent"),
        "agui": CommandEntry(
            "midturn.cli.agui", "Serve chat front ends over AG-UI, or run an agent"
        ),
        "a2a": CommandEntry("midturn.cli.a2a", "Serve other agents over A2A, or run one"),
    },
    "Set up": {
        "init": CommandEntry("midturn.cli.init", "Create a workspace"),
        "config": CommandEntry("midturn.cli.config", "Show and change the configuration"),
        "trust": CommandEntry("midturn.cli.trust", "Approve this workspace's configuration"),
        "workspace": CommandEntry(
            "midturn.cli.workspace", "Manage stored conversations of workspaces"
        ),
        "store": CommandEntry("midturn.cli.store", "Manage a PostgreSQL store"),
        "completions": CommandEntry("midturn.cli.completing", "Print a shell completion script"),
    },
}


SUGGESTIONS: Mapping[str, str] = {
    **dict.fromkeys(("ask", "run", "prompt", "say", "exec"), "query"),
    **dict.fromkeys(("questions", "pending", "waiting", "todo", "open"), "inbox"),
    **dict.fromkeys(("reply", "respond", "approve", "accept", "deny", "reject"), "answer"),
    **dict.fromkeys(("continue", "go", "carry-on", "recover"), "resume"),
    **dict.fromkeys(
        ("history", "log", "logs", "sessions", "threads", "list", "ls"), "conversation ls"
    ),
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
    ought="a click command",
)
"""Commands from plug-ins."""


class AllCommands(LazyGroup):
    """The group of all commands.

    An argument with several words is a query: `midturn "two words"`.
    """

    sections = SECTIONS
    shortcuts = SHORTCUTS
    suggestions = SUGGESTIONS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert `midturn -c "two words"` to a query, and `help COMMAND` to `COMMAND --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        if args and args[0].startswith("-") and args[0] not in _GLOBAL_OPTIONS:
            if any(_is_words(word) for word in args):
                args = ["query", *args]
            elif found := [
                name for name in ("chat", "query") if self._has_option(ctx, name, args[0])
            ]:
                commands = " or ".join(f"`midturn {name} {args[0]}`" for name in found)
                raise click.UsageError(
                    f"`{args[0]}` is an option of a command. Run {commands}.", ctx
                )
        return super().parse_args(ctx, args)

    def _has_option(self, ctx: click.Context, name: str, option: str) -> bool:
        command = self.get_command(ctx, name)
        return command is not None and any(option in param.opts for param in command.params)

    @property
    def added(self) -> Mapping[str, str]:
        """The commands from plug-ins, each with the name of its package."""
        return COMMANDS.added

    def from_a_package(self, name: str) -> click.Command:
        """Load a command from a plug-in."""
        return with_help(COMMANDS.load(name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name, and start its log."""
        from midturn.cli.log import begin_command  # imported lazily: not needed for `--help`

        begin_command(os.environ)
        found = (
            ("query", self.get_command(ctx, "query"), args)
            if _is_words(args[0])
            else super().resolve_command(ctx, args)
        )
        # exclude the modules loaded so far from garbage collection, because they are never freed
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If the reader closes stdout, the command ends without an error message."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            forget_stdout()
            raise click.exceptions.Exit(STDOUT_GONE) from None

    def advice(self, unknown: str) -> str:
        """Suggest running a query."""
        return (
            f' To send a message, run `midturn query "{unknown} …"`. To list the commands, run'
            " `midturn --help`."
        )


def _is_words(argument: str) -> bool:
    """Return whether an argument is a message rather than the name of a command."""
    return not argument.startswith("-") and any(letter.isspace() for letter in argument)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    if value:
        say("midturn {}", __version__)
        ctx.exit()


@with_help
@click.command(
    cls=AllCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? Run `midturn demo`, then `midturn init`.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version",
)
def midturn() -> None:
    """Ask people in the middle of an agent's turn"""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Errors are printed as messages, without a
    traceback.
    """
    try:
        status = _run(arguments)
        flush_stdout()
    except BrokenPipeError:
        forget_stdout()
        return STDOUT_GONE
    return status


def _run(arguments: Sequence[str] | None) -> int:  # noqa: PLR0911  one return per kind of ending
    try:
        given = list(sys.argv[1:] if arguments is None else arguments) or _default_arguments()
        status = midturn.main(args=given, prog_name="midturn", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        fail(_usage(error))
        return ExitStatus.USAGE
    except ConfigError as error:
        fail(line("midturn: {}", block(str(error))))
        return ExitStatus.USAGE
    except MidturnError as error:
        fail(line("midturn: {}", block(str(error))))
        return ExitStatus.TERMINAL_GONE if isinstance(error, TerminalGone) else ExitStatus.ERROR
    except (KeyboardInterrupt, click.Abort):
        return ExitStatus.ENDED_BY_USER
    except Exception as error:  # noqa: BLE001  the user gets one line, the log gets the traceback
        return _unexpected(error)
    return status if isinstance(status, int) else ExitStatus.DONE


def _default_arguments() -> list[str]:
    """Return the command for `midturn` without arguments.

    At a terminal, it is a chat, or a choice between a demo and a setup if no model is configured.
    Otherwise it is empty, which prints the help. Shells also run `midturn` without arguments to
    complete a line; bash even does so with the terminal as stdin.
    """
    if COMPLETING in os.environ or not (
        sys.stdin and sys.stderr and sys.stdin.isatty() and sys.stderr.isatty()
    ):
        return []
    from midturn.cli.asking import choose_command

    return choose_command(
        lambda: midturn.main(args=["init"], prog_name="midturn", standalone_mode=False)
    )


def _usage(error: click.ClickException) -> Shown:
    context = cast("click.Context | None", getattr(error, "ctx", None))
    if (
        isinstance(error, click.NoSuchOption) and error.possibilities and context
    ):  # removed flags are not suggested
        removed = {
            flag
            for option in context.command.params
            if getattr(option, "hidden", False)
            for flag in option.opts
        }
        error = click.NoSuchOption(
            error.option_name,
            error.message,
            [flag for flag in error.possibilities if flag not in removed],
            error.ctx,
        )
    text = error.format_message()
    message = block(
        text.replace("\n\t", " ") if isinstance(error, click.MissingParameter) else text
    )  # click lists the choices on several lines
    if type(error).__name__ == "NoArgsIsHelpError":  # this error's message is the help
        return message
    return (
        line("midturn: {}\nTry `{} --help`.", message, context.command_path)
        if context
        else line("midturn: {}", message)
    )


def _unexpected(error: Exception) -> int:
    from midturn.cli.log import tell_unexpected

    if isinstance(error, FileNotFoundError) and _is_directory_gone():
        note("midturn: The working directory no longer exists. Change to another directory.")
        return ExitStatus.ERROR
    tell_unexpected(error)
    return ExitStatus.ERROR


def _is_directory_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  only called for its error
    except FileNotFoundError:
        return True
    return False
