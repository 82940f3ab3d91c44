"""Questions of commands themselves to the person at the terminal: none of them is recorded."""

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
    settings: Settings | None = None, gate: Gate | None = None, agent: str = "", project: str = "", *, exit_leaves_open: bool = False
) -> Prompter:
    """Return the prompter of this terminal, as it is configured; `gate` holds back what else is written while it asks.

    A person may write rules there, for our own tools or for those of another `agent`. Those for a project are bound to the directory
    `project`; by default to this workspace, or this directory outside of any. With `exit_leaves_open`, Ctrl-C, Ctrl-D and Escape leave a
    question open instead of ending its turn.
    """
    from midturn.cli.config import WrittenRules  # only a person who is there needs these
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
    """Return the directory that standing permissions of this project are bound to."""
    here = Path.cwd()
    workspace = Workspace.find(here)
    return project_of(workspace.root if workspace else here)


def ask_here(question: Question[Any]) -> Reply:
    """Ask a question of ours at the terminal.

    Raises:
        click.Abort: The person leaves with Ctrl-C.
    """
    reply = asyncio.run(ask_once(terminal(settings_if_right()), Prompt(question=question, asked_by=ASKED_BY, can_reply=False)))
    if isinstance(reply, EndedTurn):
        raise click.Abort
    return reply


def confirmed(question: Question[bool], otherwise: str) -> bool:
    """Ask for a yes.

    Raises:
        click.UsageError: No one can be asked; `otherwise` says what to write instead.
    """
    reply = ask_here(question)
    if isinstance(reply, Unavailable):
        raise click.UsageError(f"There is no terminal to ask at. {otherwise}")
    return isinstance(reply, Answered) and reply.value is True


# ----------------------------------------------------------------------------------------------------------------------
# `midturn` alone, at a terminal


_NO_MODEL = "No model is set. Two ways to start: `midturn demo` shows what this is, `midturn init` sets it up."


def begun_alone(set_up_here: Callable[[], object]) -> list[str]:
    """Return the command that `midturn` alone means where a person is: a chat; without a model, the demo, or what sets one up first.

    Raises:
        click.UsageError: No model is set, and nothing else was chosen; or the files that name one have to be trusted.
        click.exceptions.Exit: None is set after that, either.
    """
    loaded = load_here()
    if loaded.settings.assistant.model.id:
        return ["chat"]
    if untrusted := model_to_be_trusted(loaded):
        raise click.UsageError(untrusted)
    demo = SelectOption("see the demo", "A whole turn with real questions; it needs no key. (`midturn demo`)")
    set_up = SelectOption("set up a model", "Looks for a key or a local server, and makes this directory a workspace. (`midturn init`)")
    reply = ask_here(Question.select("start", "No model is set. How do you want to start?", (demo, set_up)))
    if not isinstance(reply, Answered):
        raise click.UsageError(_NO_MODEL)
    if reply.value == demo.value:
        return ["demo"]
    set_up_here()
    if not load_here().settings.assistant.model.id:
        raise click.exceptions.Exit(ExitStatus.USAGE)
    return ["chat"]
