"""The options `--answer`, `--tool` and `--no-tool`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import click
from msgspec import Struct

from midturn.agent.assembly.command_line import known_tools
from midturn.cli.completing import complete_tools
from midturn.config.assign import ANSWER, parse_key, read_delta
from midturn.config.settings import Settings, Toggle
from midturn.errors import ConfigError
from midturn.events.types import Event, InquiryResponse, call_requests, inquiry_requests
from midturn.events.window import config_deltas
from midturn.question.answer_type import SecretType
from midturn.question.text import ASK_USER, BUILT_IN_TOOLS, did_you_mean
from midturn.turn.view import pairs

ANYTHING = "*"


class FlagTarget(Struct, frozen=True):
    """The question that an `--answer` applies to. `'*'` matches every question of the tool."""

    tool: str
    question: str

    @property
    def name(self) -> str:
        """The target as typed."""
        return f"{self.tool}.{self.question}"


def answer_flag(text: str) -> FlagTarget:
    """Return the target of a valid `--answer`."""
    name, _, _ = text.partition("=")
    tool, _, question = name.partition(".")
    return FlagTarget(tool, question)


def check_answers(given: Iterable[str], settings: Settings, events: Sequence[Event]) -> None:
    """Reject answers to questions that are never asked, and to questions that ask for a secret.

    Raises:
        ConfigError: The tool does not exist, a built-in tool never asks the question, or the
            question asks for a secret.
    """
    secrets = _secrets(events)
    for answer in map(answer_flag, given):
        _check_tool(answer, settings)
        _check_question(answer)
        if (answer.tool, answer.question) in secrets:
            raise ConfigError(
                f"{ANSWER} {answer.name}: this question asks for a secret. A secret on the command"
                " line would stay in the history of your shell and in the conversation. Answer it"
                " at the prompt."
            )


def unused_answers(turn: Sequence[Event]) -> list[str]:
    """Return the `--answer` flags of this turn that no question used, in order."""
    given = list(_recorded(turn))
    used = set(_used(turn))
    return [answer.name for answer in given if answer not in used and not _is_covered(answer, used)]


def _check_tool(answer: FlagTarget, settings: Settings) -> None:
    tools = known_tools(settings)
    served = any(answer.tool.startswith(f"{server}_") for server in settings.mcp)
    renamed = any(
        answer.tool in (tool.rename, tool.name)
        for tool in settings.tools.values()
        if tool.source == "mcp"
    )
    if answer.tool not in tools and not served and not renamed:
        raise ConfigError(
            f"{ANSWER} {answer.name}: no tool `{answer.tool}`.{did_you_mean(answer.tool, tools)}"
        )


def _check_question(answer: FlagTarget) -> None:
    if answer.tool == ASK_USER or answer.question == ANYTHING:
        return
    asked = BUILT_IN_TOOLS.get(answer.tool)
    if asked is not None and answer.question not in asked:
        asks = (
            f"Its questions: {', '.join(f'`{question}`' for question in asked)}."
            if asked
            else "It asks no questions."
        )
        raise ConfigError(
            f"{ANSWER} {answer.name}: `{answer.tool}` never asks `{answer.question}`. {asks}"
        )


def _secrets(events: Sequence[Event]) -> set[tuple[str, str]]:
    tools = {call.event_id: call.name for call in call_requests(events)}
    asked = (
        event
        for event in inquiry_requests(events)
        if isinstance(event.question.answer_type, SecretType)
    )
    return {
        (tools.get(event.call) or event.source.name or ASK_USER, event.question_id)
        for event in asked
    }


def _recorded(turn: Sequence[Event]) -> Iterable[FlagTarget]:
    deltas = map(read_delta, config_deltas(turn))
    for assignment in (
        given for delta in deltas if delta for given in delta.flags if given.origin == ANSWER
    ):
        _, _, tool, _, question, _ = parse_key(assignment.key, ANSWER)
        yield FlagTarget(tool, question)


def _used(turn: Sequence[Event]) -> Iterable[FlagTarget]:
    tools = {call.event_id: call.name for call in call_requests(turn)}
    for request, response in pairs(turn):
        if response is not None and _is_used(response):
            yield FlagTarget(tools.get(request.call, ""), request.question_id)


def _is_used(response: InquiryResponse) -> bool:
    if (
        response.outcome == "cancelled"
    ):  # an invalid configured answer can only come from the flag, which has precedence
        return response.reason == "invalid_static_answer"
    return response.answered_by is not None and response.answered_by.origin == ANSWER


def _is_covered(answer: FlagTarget, used: set[FlagTarget]) -> bool:
    return answer.question == ANYTHING and any(target.tool == answer.tool for target in used)


# --------------------------------------------------------------------------------------------------
# `--tool` and `--no-tool` enable and disable tools, in the given order. The name is optional.


_F = TypeVar("_F", bound=Callable[..., Any])
_ON, _OFF = "tools_on", "tools_off"
_ORDER_KEY = "midturn.toggles"
_BARE = ""


def with_toggles(command: _F) -> _F:
    """Add both options. `TogglingCommand` keeps their order."""
    return _toggling("-t", "--tool", _ON, "Enable a tool, or all tools")(
        _toggling("-T", "--no-tool", _OFF, "Disable a tool, or all tools")(command)
    )


def _toggling(short: str, long: str, name: str, help: str) -> Callable[[_F], _F]:
    return click.option(
        short,
        long,
        name,
        multiple=True,
        is_flag=False,
        flag_value=_BARE,
        metavar="[TOOL]",
        help=help,
        shell_complete=complete_tools,
    )


class TogglingCommand(click.Command):
    """A command whose parameter `toggles` contains the `-t` and `-T` flags in the given order."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments.

        If both flags are given, parse them again to find their order, because click groups values
        by option.
        """
        given = _in_full(args, self.params)
        rest = super().parse_args(ctx, list(given))
        order = [name for name in (_ON, _OFF) for _ in ctx.params[name]]
        if ctx.params[_ON] and ctx.params[_OFF]:
            _, _, parsed = self.make_parser(ctx).parse_args(args=given)
            order = [param.name for param in parsed if param.name in (_ON, _OFF)]
        ctx.meta[_ORDER_KEY] = order
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Merge the two options into `toggles`."""
        given = {_ON: iter(_named(ctx, _ON)), _OFF: iter(_named(ctx, _OFF))}
        ctx.params["toggles"] = tuple(
            _toggle(name, given[name]) for name in cast("list[str]", ctx.meta[_ORDER_KEY])
        )
        return super().invoke(ctx)


def _in_full(args: Sequence[str], params: Iterable[click.Parameter]) -> list[str]:
    """Expand leading short options.

    Otherwise click first tries each of them as a long option, and imports a module for suggestions.
    """
    options = [
        param
        for param in params
        if isinstance(param, click.Option) and not param.multiple and param.nargs == 1
    ]
    known = {
        short: option for option in options for short in option.opts if not short.startswith("--")
    }
    full = list(args)
    index = 0
    while (
        index < len(full)
        and (option := known.get(full[index]))
        and (option.is_flag or index + 1 < len(full))
    ):
        full[index] = next((name for name in option.opts if name.startswith("--")), full[index])
        index += 1 if option.is_flag else 2
    return full


def _named(ctx: click.Context, option: str) -> Sequence[str]:
    return cast("Sequence[str]", ctx.params.pop(option))


def _toggle(option: str, names: Iterator[str]) -> Toggle:
    return Toggle(on=option == _ON, name=next(names) or None)
