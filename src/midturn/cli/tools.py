"""`midturn tools`: list, inspect and run tools, and explain which rules apply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.assembly.command_line import (
    CommandArguments,
    CommandLine,
    definition_of,
    known_tools,
)
from midturn.agent.result import result_of
from midturn.cli.asking import project_here, terminal
from midturn.cli.command_context import environment, find_place
from midturn.cli.completing import complete_tools
from midturn.cli.config import print_standing, rule_json, standing_here, where
from midturn.cli.headless import with_signals
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.loading import Flags, load_for, load_here, report_ignored
from midturn.cli.locked import is_attached
from midturn.cli.options import with_json, with_non_interactive
from midturn.cli.output import ExitStatus, Shown, block, indented, line, note, say, say_json, table
from midturn.cli.turn_end import status_of
from midturn.cli.turn_run import connected
from midturn.config.assign import Assignment
from midturn.config.settings import Settings, ToolSettings
from midturn.config.standing_permissions import OwnRule
from midturn.errors import ConfigError
from midturn.events.types import Event, call_results
from midturn.exchange import ToolDefinition
from midturn.models.scripted import ScriptedModel
from midturn.ports import Tool
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject
from midturn.question.people import MOST_REMINDERS, People, amount
from midturn.question.text import BUILT_IN_TOOLS, did_you_mean
from midturn.routing.rules import Ruling, RunRule, RunRules, describe_rule
from midturn.runtime.driver import RunEnding
from midturn.runtime.run_options import RunOptions
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.sync_forms import drive
from midturn.turn.inputs import TurnRequested
from midturn.turn.votes import listed

command = lazy_group(
    "tools",
    "List, inspect and run tools, and explain rules",
    {
        "ls": CommandEntry(
            "midturn.cli.tools:ls_command", "List tools and whether they are enabled"
        ),
        "show": CommandEntry(
            "midturn.cli.tools:show_command", "Show the definition and configuration of a tool"
        ),
        "run": CommandEntry("midturn.cli.tools:run_command", "Run a tool once"),
        "rules": CommandEntry("midturn.cli.config:rules_command", "List or remove your own rules"),
        "explain": CommandEntry(
            "midturn.cli.tools:explain_command", "Show which rule applies to a call"
        ),
    },
)


# --------------------------------------------------------------------------------------------------
# The tools in this workspace: configured tools, and tools of MCP servers


class AvailableTools(Struct, frozen=True):
    """The configured tools, and the tools of MCP servers (`others`)."""

    settings: Settings
    others: Sequence[Tool]

    @property
    def current(self) -> Settings:
        """The settings, including the tools of MCP servers."""
        return replace(self.settings, tools={**self.settings.tools, **self.tools})

    @property
    def tools(self) -> Mapping[str, ToolSettings]:
        """All tools by name, whether they are enabled or not."""
        return known_tools(self.settings, self.others)

    def named(self, name: str) -> ToolSettings:
        """Return the settings of a tool.

        Raises:
            ConfigError: There is no such tool.
        """
        if name not in self.tools:
            raise ConfigError(
                f"No tool is named `{name}`.{did_you_mean(name, self.tools)} Run `midturn tools ls`"
                " to list tools."
            )
        return self.tools[name]

    def definition(self, tool: ToolSettings) -> ToolDefinition:
        """Return the definition of a tool for models."""
        return definition_of(tool, self.others)

    def source(self, tool: ToolSettings) -> str | None:
        """Return the origin of a tool: `mcp`, or the `source` in its configuration."""
        return (
            "mcp"
            if any(other.definition.name == tool.name for other in self.others)
            else tool.source
        )


@contextmanager
def known_here() -> Generator[AvailableTools]:
    """Load the configuration, and list the tools of its MCP servers."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    with connected(loaded.settings, find_place().root, attached=True) as servers:
        yield AvailableTools(loaded.settings, servers.tools)


# --------------------------------------------------------------------------------------------------
# `midturn tools run`: one call without a model


@click.command
@click.argument("name", shell_complete=complete_tools)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@with_non_interactive
def run_command(name: str, arguments: tuple[str, ...], *, non_interactive: bool) -> ExitStatus:
    """Run tool NAME once and print its result

    Pass arguments as KEY=VALUE (JSON or text) or as one JSON object. Questions are routed as in a
    turn. Nothing is recorded.

    Example: midturn tools run fs_read_file path=README.md
    """
    place = find_place()
    attached = is_attached(environment(), non_interactive=non_interactive)
    given = read_arguments(arguments)
    loaded = load_for(
        place,
        Flags(
            assignments=[Assignment(f"conversation.tools.{name}.run", "unattended", "tools run")]
        ),
    )
    report_ignored(loaded, attached=attached)
    with connected(loaded.settings, place.root, attached=attached) as servers:
        AvailableTools(loaded.settings, servers.tools).named(name)
        parts = CommandArguments(
            settings=loaded.settings,
            root=place.root,
            attached=attached,
            others=servers.tools,
            model=_calling(name, given),
        )
        return _call(name, parts)


def read_arguments(words: Sequence[str]) -> dict[str, Json]:
    """Parse the arguments of a call.

    Raises:
        click.UsageError: The arguments are neither KEY=VALUE nor a JSON object.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            return cast("dict[str, Json]", read_json(words[0]))
        except NotJson as error:
            raise click.UsageError(f"Invalid JSON arguments: {error}.") from error
    return dict(map(_pair, words))


def _pair(word: str) -> tuple[str, Json]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.UsageError(
            f"Invalid argument {word!r}. Expected KEY=VALUE, or one JSON object."
        )
    try:
        return key, read_json(value)
    except NotJson:  # not JSON, so the value is a string
        return key, value


def _calling(name: str, arguments: dict[str, Json]) -> ScriptedModel:
    """Return a scripted model that makes one call."""
    return ScriptedModel([{"calls": [{"name": name, "arguments": arguments}]}, {"text": "Done."}])


def _call(name: str, parts: CommandArguments) -> ExitStatus:
    command_line = CommandLine(
        parts, RunOptions(prompter=terminal(parts.settings) if parts.attached else None)
    )
    journal = drive(MemoryStore().create(name))
    session = command_line.session(journal)

    async def run() -> RunEnding:
        return await session.run(TurnRequested(name))

    ending = asyncio.run(with_signals(run, session.interrupt))
    result = result_of(journal.conversation, session.view, ending)
    failed = _print(session.view.events)
    if result.status == "suspended":
        note("midturn: no one was there to answer. Run the command at a terminal.")
        return ExitStatus.ERROR
    status = status_of(result)
    return ExitStatus.ERROR if failed and status == ExitStatus.DONE else status


def _print(turn: Sequence[Event]) -> bool:
    """Print the result for the model. Return whether it is an error."""
    responses = [*call_results(turn)]
    for response in responses:
        if response.is_error:
            note(line("midturn: {}", block(response.content)))
        else:
            say(block(response.content))
    return any(response.is_error for response in responses)


# --------------------------------------------------------------------------------------------------
# `midturn tools explain`


_RULINGS = {
    "unattended": "runs without asking",
    "ask": "asks before it runs",
    "edit": "asks before it runs",
    "skip": "does not run",
}


@click.command
@click.argument("name", shell_complete=complete_tools)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--agent", metavar="AGENT", help="NAME is a tool of this coding agent, such as claude"
)
@with_json
def explain_command(
    name: str, arguments: tuple[str, ...], *, agent: str | None, as_json: bool
) -> ExitStatus:
    """Show which rule applies to a call, and who would be asked

    Pass arguments as KEY=VALUE (JSON or text) or as one JSON object. The tool is not run.
    """
    given = read_arguments(arguments)
    ruling, rules = _of_agent(agent, name, given) if agent is not None else _of_tool(name, given)
    if as_json:
        listed_rules = [
            {"place": item.place, "rule": msgspec.to_builtins(item.rule), "holds": item.holds}
            for item in rules
        ]
        people = msgspec.to_builtins(ruling.people) if ruling.people else None
        say_json(
            {
                "run": ruling.run,
                "rule": ruling.place or None,
                "reason": ruling.reason,
                "people": people,
                "rules": listed_rules,
            }
        )
        return ExitStatus.DONE
    say(line("{}: {}, {}", ruling.run, _RULINGS[ruling.run], _why(ruling, agent, rules)))
    for sentence in _people_rows(ruling.people) if ruling.people else ():
        say(line("  {}", sentence))
    for row in table([_rule_row(item) for item in rules]):
        say(row)
    return ExitStatus.DONE


def _why(ruling: Ruling, agent: str | None, rules: Sequence[RuleCheck]) -> Shown:
    if ruling.place:
        return line("by the rule at {}", ruling.place)
    if agent is not None:
        return line("because no rule applies")
    return line("by `run`, because no rule applies") if rules else line("by `run`")


def _of_tool(name: str, arguments: JsonObject) -> tuple[Ruling, list[RuleCheck]]:
    with known_here() as known:
        policy = known.named(name).policy
    return known.settings.with_people(policy.ruling(arguments)), examined(
        policy.rules, arguments, policy.definition
    )


def _of_agent(agent: str, tool: str, arguments: JsonObject) -> tuple[Ruling, list[RuleCheck]]:
    """Return what the rules decide about another agent's call, and the checked rules.

    Raises:
        ConfigError: There are no rules for that agent.
    """
    loaded = load_here()
    report_ignored(loaded, attached=True)
    settings = loaded.settings
    if agent not in settings.agents:
        known = did_you_mean(agent, settings.agents)
        raise ConfigError(
            f"There are no rules for the agent `{agent}`.{known} Rules are configured in"
            " `[agents.<agent>.tools.<tool>]`."
        )
    return settings.ruling(agent, tool, arguments), examined(
        settings.agent_rules(agent, tool), arguments
    )


class RuleCheck(Struct, frozen=True):
    """A rule, and the result of checking it for a call.

    Args:
        rule: The rule.
        place: File and line, variable or flag that sets the rule.
        holds: Whether the rule matches the call.
        is_first: Whether it is the first matching rule of its file, variable or flag.
        needs_shell: Whether the rule would match if it set `shell`.
        only_tightens: Whether the rule applies only if no other rule is stricter, because its file
            is not trusted.
        is_stale: Whether the rule was added for another definition of the tool.
    """

    rule: RunRule
    place: str
    holds: bool
    is_first: bool
    needs_shell: bool
    only_tightens: bool
    is_stale: bool = False


def examined(origins: Sequence[RunRules], arguments: Json, definition: str = "") -> list[RuleCheck]:
    """Return all rules in the order in which they are checked, each with its result for the call."""
    found: list[RuleCheck] = []
    for origin in origins:
        matched = False
        for rule, place in zip(origin.rules, origin.places, strict=True):
            holds = rule.is_about(definition) and rule.holds(arguments)
            needs_shell = (
                not holds
                and not rule.holds(arguments)
                and replace(rule, shell=True).holds(arguments)  # noqa: S604  a field of rules
            )
            is_stale = not rule.is_about(definition)
            found.append(
                RuleCheck(
                    rule,
                    place,
                    holds,
                    holds and not matched,
                    needs_shell,
                    origin.only_tightens,
                    is_stale,
                )
            )
            matched = matched or holds
    return found


def _people_rows(people: People) -> Iterator[str]:
    """Yield rows about people: who is asked, who may answer, how many approvals are needed, and who
    is reminded later.
    """
    if people.ask:
        yield (
            "Assigned to"
            f" {_with_members(people, people.ask)}{'; no one else may answer' if people.only else ''}."
        )
    if people.approvals > 1:
        yield f"{people.approvals} different people must approve. The first denial rejects the call."
    if people.remind_after is not None:
        yield (
            f"Reminders are sent every {amount(people.remind_after)}, at most {MOST_REMINDERS}"
            " times."
        )
    for step in people.escalate:
        yield (
            f"After {amount(step.after)}, it is also assigned to {_with_members(people, step.to)}."
        )


def _with_members(people: People, names: Sequence[str]) -> str:
    return listed(
        [
            f"{name} ({listed(people.members[name])})" if name in people.members else name
            for name in names
        ]
    )


def _rule_row(item: RuleCheck) -> list[Shown]:
    when = json.dumps(item.rule.when, ensure_ascii=False) if item.rule.when else "always"
    asked = f"ask {', '.join(item.rule.people.ask)}".rstrip() if item.rule.people else item.rule.run
    return [
        line("  {}", item.place),
        line("{}", asked),
        line("{}", when),
        line("{}", _match_text(item)),
    ]


def _match_text(item: RuleCheck) -> str:
    if item.is_stale:
        return "does not match: it was added for another command of the tool"
    if item.needs_shell:
        return (
            "does not match: it is not a simple command, and the rule does not set `shell = true`"
        )
    if not item.holds:
        return "does not match"
    if not item.is_first:
        return "matches, after an earlier rule"
    return (
        "matches, but only applies if no rule is stricter: its file is not trusted"
        if item.only_tightens
        else "matches"
    )


# --------------------------------------------------------------------------------------------------
# `midturn tools ls`


@click.command
@with_json
def ls_command(*, as_json: bool) -> ExitStatus:
    """List tools and whether they are enabled

    The columns are the name, on or off, the run policy, and the summary.
    """
    with known_here() as known:
        if as_json:
            standing = standing_here(known.current, project_here())
            say_json([_json(known, tool, standing) for tool in known.tools.values()])
            return ExitStatus.DONE
        for row in table([_row(known, tool) for tool in known.tools.values()]):
            say(row)
        print_standing(known.current, project_here())
    return ExitStatus.DONE


def _json(
    known: AvailableTools, tool: ToolSettings, standing: Sequence[tuple[OwnRule, str]]
) -> JsonObject:
    return {
        "name": tool.name,
        "source": known.source(tool),
        "enabled": tool.enable.state,
        "allow_toggle": tool.enable.allow_toggle,
        "run": tool.policy.run,
        "result": tool.policy.result,
        "summary": _summary(known, tool),
        "standing": [
            rule_json(rule, stale)
            for rule, stale in standing
            if rule.tool in (tool.name, "*") and not rule.agent
        ],
    }


def _row(known: AvailableTools, tool: ToolSettings) -> list[Shown]:
    state = line("on" if tool.enable.state else "off")
    return [
        line("{}", tool.name),
        state,
        line("{}", tool.policy.run),
        line("{}", _summary(known, tool)),
    ]


def _summary(known: AvailableTools, tool: ToolSettings) -> str:
    """Return the first line of the description."""
    return next(iter(known.definition(tool).description.splitlines()), "")


# --------------------------------------------------------------------------------------------------
# `midturn tools show`


@click.command
@click.argument("name", shell_complete=complete_tools)
@with_json
def show_command(name: str, *, as_json: bool) -> ExitStatus:
    """Show the definition and configuration of tool NAME"""
    with known_here() as known:
        tool = known.named(name)
        definition, source = known.definition(tool), known.source(tool)
    if as_json:
        say_json(msgspec.to_builtins(definition))
        return ExitStatus.DONE
    standing = [
        (rule, stale)
        for rule, stale in standing_here(known.current, project_here())
        if rule.tool == name and not rule.agent
    ]
    facts = [
        *_facts(tool, source),
        *(("allowed", _allowed(rule, stale)) for rule, stale in standing),
    ]
    for row in table([(line("{}", what), shown) for what, shown in facts]):
        say(row)
    gutter = line("  ")
    say("\nDescription for the model:")
    for row in indented(block(definition.description), gutter):
        say(row)
    say("\nParameters:")
    for row in indented(
        block(json.dumps(definition.parameters, ensure_ascii=False, indent=2)), gutter
    ):
        say(row)
    return ExitStatus.DONE


def _allowed(rule: OwnRule, stale: str) -> Shown:
    """Describe a rule of the user's own that lets calls of a tool run, with its scope and place."""
    read = rule.read
    covers = describe_rule(read, rule.tool) if read else rule.tool
    scope = where(rule.scope, rule.project)
    return line(
        "{}, {} ({}){}", covers, scope, rule.place, f": does not apply, {stale}" if stale else ""
    )


def _facts(tool: ToolSettings, source: str | None) -> Iterator[tuple[str, Shown]]:
    yield "name", line("{}", tool.name)
    yield "source", line("{}", source)
    yield (
        "enabled",
        line(
            "{} (allow_toggle = {})", "yes" if tool.enable.state else "no", tool.enable.allow_toggle
        ),
    )
    yield "run", line("{}", tool.policy.run)
    yield "result", line("{}", tool.policy.result)
    for place, rule in (
        pair
        for origin in tool.policy.rules
        for pair in zip(origin.places, origin.rules, strict=True)
    ):
        yield "rule", line("{} {} ({})", rule.run, json.dumps(rule.when, ensure_ascii=False), place)
    detached = tool.policy.detached
    yield (
        "detached",
        line("run {}, deliver {}, tool {}", detached.run, detached.deliver, detached.tool),
    )
    if tool.command:
        yield "command", line("{}", " ".join(tool.command))
        yield "protocol", line("{}", tool.protocol)
    asks = [
        *BUILT_IN_TOOLS.get(tool.name, ()),
        *(question for question in tool.policy.questions if question != "*"),
    ]
    for question in dict.fromkeys(asks):
        yield (
            "asks",
            line("{} (answered by {})", question, tool.policy.question(question).target.kind),
        )
