"""Ask the user at the terminal, outside of a turn. Nothing is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from midturn.cli.command_context import environment
from midturn.cli.loading import load_here, model_to_be_trusted, settings_if_right
from midturn.cli.output import ExitStatus
from midturn.config.places import own_name, project_of
from midturn.config.settings import Settings
from midturn.events.prompt import Prompt
from midturn.prompter import Prompter, ask_once
from midturn.question.answer_type import SelectOption
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Reply, Unavailable
from midturn.stores.workspace import Workspace
from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.output_pair import Gate

ASKED_BY = "midturn"


def terminal(
    settings: Settings | None = None,
    gate: Gate | None = None,
    agent: str = "",
    project: str = "",
    *,
    exit_leaves_open: bool = False,
) -> Prompter:
    """Return a prompter for this terminal, with the configured settings.

    `gate` holds back other output while a prompt is open. The user can add rules for midturn's own
    tools, or for the tools of another `agent`. Rules for a project apply to the directory `project`
    (default: this workspace, or this directory outside of a workspace). With `exit_leaves_open`,
    Ctrl-C, Ctrl-D and Escape leave a question open instead of ending its turn.
    """
    from midturn.cli.config import WrittenRules  # imported lazily: only needed for prompts
    from midturn.terminal.prompter import TerminalPrompter

    if settings is None:
        return TerminalPrompter(TerminalSettings(tidies=True))
    asks = TerminalSettings(
        **asdict(settings.prompt),
        notify_command=settings.notify,
        announces=gate is None,
        tidies=True,
        exit_leaves_open=exit_leaves_open,
    )
    prompter = TerminalPrompter(asks, gate, WrittenRules(project or project_here(), agent))
    prompter.user = own_name(environment())
    return prompter


def project_here() -> str:
    """Return the directory to which the project's standing permissions apply."""
    cwd = Path.cwd()
    workspace = Workspace.find(cwd)
    return project_of(workspace.root if workspace else cwd)


def ask_here(question: Question[Any]) -> Reply:
    """Ask a question at the terminal.

    Raises:
        click.Abort: The user pressed Ctrl-C.
    """
    reply = asyncio.run(
        ask_once(
            terminal(settings_if_right()),
            Prompt(question=question, asked_by=ASKED_BY, can_reply=False),
        )
    )
    if isinstance(reply, EndedTurn):
        raise click.Abort
    return reply


def confirmed(question: Question[bool], otherwise: str) -> bool:
    """Ask for confirmation.

    Raises:
        click.UsageError: There is no terminal. `otherwise` describes how to confirm without a
            terminal.
    """
    reply = ask_here(question)
    if isinstance(reply, Unavailable):
        raise click.UsageError(f"No terminal is available. {otherwise}")
    return isinstance(reply, Answered) and reply.value is True


# --------------------------------------------------------------------------------------------------
# `midturn` without arguments


_NO_MODEL = (
    "No model is configured. Run `midturn demo` for a demo, or `midturn init` to configure a model."
)


def choose_command(set_up: Callable[[], object]) -> list[str]:
    """Return the command for `midturn` without arguments at a terminal.

    The command is a chat. If no model is configured, the user can choose the demo or a setup first.

    Raises:
        click.UsageError: No model is configured and the user chose nothing, or the files that
            configure a model are not trusted.
        click.exceptions.Exit: The setup did not configure a model.
    """
    loaded = load_here()
    if loaded.settings.assistant.model.id:
        return ["chat"]
    if untrusted := model_to_be_trusted(loaded):
        raise click.UsageError(untrusted)
    demo = SelectOption(
        "see the demo", "A complete turn with questions; needs no API key. (`midturn demo`)"
    )
    set_up_model = SelectOption(
        "set up a model",
        "Finds API keys and local servers, and creates a workspace here. (`midturn init`)",
    )
    reply = ask_here(
        Question.select(
            "start", "No model is configured. How do you want to start?", (demo, set_up_model)
        )
    )
    if not isinstance(reply, Answered):
        raise click.UsageError(_NO_MODEL)
    if reply.value == demo.value:
        return ["demo"]
    set_up()
    if not load_here().settings.assistant.model.id:
        raise click.exceptions.Exit(ExitStatus.USAGE)
    return ["chat"]
