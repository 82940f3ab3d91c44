"""`midturn tools`: what a model may call here, and running one by hand."""

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

from midturn.agent.assembly.command_line import CommandLine, CommandParts, definition_of, known_tools
from midturn.agent.assembly.session import RunParts
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
from midturn.config.standing import OwnRule
from midturn.errors import ConfigError
from midturn.events.types import Event, call_results
from midturn.exchange import ToolDefinition
from midturn.models.scripted import ScriptedModel
from midturn.ports import Tool
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject
from midturn.question.people import MOST_REMINDERS, People, amount
from midturn.question.text import BUILT_IN_TOOLS, did_you_mean
from midturn.routing.rules import Ruling, RunRule, RunRules, in_words
from midturn.runtime.driver import RunEnding
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.sync_forms import drive
from midturn.turn.people import listed
from midturn.turn.step import TurnRequested

command = lazy_group(
    "tools",
    "Show the tools of this workspace, run one by hand, or see which rule decides about a call.",
    {
        "ls": CommandEntry("midturn.cli.tools:ls_command", "List them: what is offered, and who is asked."),
        "show": CommandEntry("midturn.cli.tools:show_command", "Show what a model is told about one."),
        "run": CommandEntry("midturn.cli.tools:run_command", "Run one, questions included."),
        "rules": CommandEntry("midturn.cli.config:rules_command", "List the rules of your own configuration, or remove one."),
        "explain": CommandEntry("midturn.cli.tools:explain_command", "Say whether a call would be asked about, and by which rule."),
    },
)


# ----------------------------------------------------------------------------------------------------------------------
# The tools of this workspace: those that configuration knows, and those of MCP servers


class Known(Struct, frozen=True):
    """Configured tools, and those of servers (`others`)."""

    settings: Settings
    others: Sequence[Tool]

    @property
    def current(self) -> Settings:
        """The settings, with what is known of the tools of servers."""
        return replace(self.settings, tools={**self.settings.tools, **self.tools})

    @property
    def tools(self) -> Mapping[str, ToolSettings]:
        """Every tool, by its name, enabled or not."""
        return known_tools(self.settings, self.others)

    def named(self, name: str) -> ToolSettings:
        """Return what is configured for a tool.

        Raises:
            ConfigError: There is no such tool.
        """
        if name not in self.tools:
            raise ConfigError(f"There is no tool `{name}`.{did_you_mean(name, self.tools)} `midturn tools ls` lists them.")
        return self.tools[name]

    def definition(self, tool: ToolSettings) -> ToolDefinition:
        """Return what a model is told about a tool."""
        return definition_of(tool, self.others)

    def source(self, tool: ToolSettings) -> str | None:
        """Return where a tool comes from."""
        return "mcp" if any(other.definition.name == tool.name for other in self.others) else tool.source


@contextmanager
def known_here() -> Generator[Known]:
    """Read the configuration, and ask its servers for their tools."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    with connected(loaded.settings, find_place().root, attached=True) as servers:
        yield Known(loaded.settings, servers.tools)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn tools run`: one call without a model, routed like any other


@click.command
@click.argument("name", shell_complete=complete_tools)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@with_non_interactive
def run_command(name: str, arguments: tuple[str, ...], *, non_interactive: bool) -> ExitStatus:
    """Run the tool NAME once. Its arguments are KEY=VALUE (JSON, or else a string), or one JSON object.

    Its questions are routed as in a turn; nothing is recorded. The result goes to stdout.
    """
    place = find_place()
    attached = is_attached(environment(), non_interactive=non_interactive)
    given = read_arguments(arguments)
    loaded = load_for(place, Flags(assignments=[Assignment(f"conversation.tools.{name}.run", "unattended", "tools run")]))
    report_ignored(loaded, attached=attached)
    with connected(loaded.settings, place.root, attached=attached) as servers:
        Known(loaded.settings, servers.tools).named(name)
        parts = CommandParts(
            settings=loaded.settings, root=place.root, attached=attached, others=servers.tools, model=_calling(name, given)
        )
        return _call(name, parts)


def read_arguments(words: Sequence[str]) -> dict[str, Json]:
    """Read the arguments of a call.

    Raises:
        click.UsageError: They are neither KEY=VALUE nor an object.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            return cast("dict[str, Json]", read_json(words[0]))
        except NotJson as error:
            raise click.UsageError(f"The arguments cannot be used: {error}.") from error
    return dict(map(_pair, words))


def _pair(word: str) -> tuple[str, Json]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{word!r} is not an argument: write KEY=VALUE, or one JSON object.")
    try:
        return key, read_json(value)
    except NotJson:  # then it is a string
        return key, value


def _calling(name: str, arguments: dict[str, Json]) -> ScriptedModel:
    """Return a model that makes one call."""
    return ScriptedModel([{"calls": [{"name": name, "arguments": arguments}]}, {"text": "Done."}])


def _call(name: str, parts: CommandParts) -> ExitStatus:
    command_line = CommandLine(parts, RunParts(prompter=terminal(parts.settings) if parts.attached else None))
    journal = drive(MemoryStore().create(name))
    session = command_line.session(journal)

    async def run() -> RunEnding:
        return await session.run(TurnRequested(name))

    ending = asyncio.run(with_signals(run, session.interrupt))
    result = result_of(journal.conversation, session.view, ending)
    failed = _print(session.view.events)
    if result.status == "suspended":
        note("midturn: no one was there to answer; run it at a terminal.")
        return ExitStatus.ERROR
    status = status_of(result)
    return ExitStatus.ERROR if failed and status == ExitStatus.DONE else status


def _print(turn: Sequence[Event]) -> bool:
    """Print what the model would read; say whether it is an error."""
    responses = [*call_results(turn)]
    for response in responses:
        if response.is_error:
            note(line("midturn: {}", block(response.content)))
        else:
            say(block(response.content))
    return any(response.is_error for response in responses)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn tools explain`


_RULINGS = {
    "unattended": "it runs without being asked about",
    "ask": "it is asked about before it runs",
    "edit": "it is asked about before it runs",
    "skip": "it does not run",
}


@click.command
@click.argument("name", shell_complete=complete_tools)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--agent", metavar="AGENT", help="NAME is a tool of another agent, such as `claude`, as that agent calls it.")
@with_json
def explain_command(name: str, arguments: tuple[str, ...], *, agent: str | None, as_json: bool) -> ExitStatus:
    """Say whether a call of the tool NAME with these arguments would be asked about, of whom, and which rule decides that.

    Arguments are KEY=VALUE (JSON, or else a string), or one JSON object. Nothing is run.
    """
    given = read_arguments(arguments)
    ruling, rules = _of_agent(agent, name, given) if agent is not None else _of_tool(name, given)
    if as_json:
        said = [{"place": one.place, "rule": msgspec.to_builtins(one.rule), "holds": one.holds} for one in rules]
        people = msgspec.to_builtins(ruling.people) if ruling.people else None
        say_json({"run": ruling.run, "rule": ruling.place or None, "reason": ruling.reason, "people": people, "rules": said})
        return ExitStatus.DONE
    say(line("{}: {}, {}", ruling.run, _RULINGS[ruling.run], _why(ruling, agent, rules)))
    for sentence in _people_rows(ruling.people) if ruling.people else ():
        say(line("  {}", sentence))
    for row in table([_rule_row(one) for one in rules]):
        say(row)
    return ExitStatus.DONE


def _why(ruling: Ruling, agent: str | None, rules: Sequence[Examined]) -> Shown:
    if ruling.place:
        return line("by the rule at {}", ruling.place)
    if agent is not None:
        return line("for no rule holds")
    return line("by `run`, for no rule holds") if rules else line("by `run`")


def _of_tool(name: str, arguments: JsonObject) -> tuple[Ruling, list[Examined]]:
    with known_here() as known:
        policy = known.named(name).policy
    return known.settings.with_people(policy.ruling(arguments)), examined(policy.rules, arguments, policy.definition)


def _of_agent(agent: str, tool: str, arguments: JsonObject) -> tuple[Ruling, list[Examined]]:
    """Return what the rules say about a call of another agent.

    Raises:
        ConfigError: There are none about that agent.
    """
    loaded = load_here()
    report_ignored(loaded, attached=True)
    settings = loaded.settings
    if agent not in settings.agents:
        known = did_you_mean(agent, settings.agents)
        raise ConfigError(f"There is no rule about the agent `{agent}`.{known} Rules stand under `[agents.<agent>.tools.<tool>]`.")
    return settings.ruling(agent, tool, arguments), examined(settings.agent_rules(agent, tool), arguments)


class Examined(Struct, frozen=True):
    """One rule, and how it stands to a call: the first that holds of its origin, another one that holds, or one that does not.

    `needs_shell`: it would hold if it said `shell`. `is_stale`: it was written for another definition of the tool.
    """

    rule: RunRule
    place: str
    holds: bool
    is_first: bool
    needs_shell: bool
    only_tightens: bool
    is_stale: bool = False


def examined(origins: Sequence[RunRules], arguments: Json, definition: str = "") -> list[Examined]:
    """Return every rule with how it stands to a call, in the order in which they are looked at."""
    found: list[Examined] = []
    for origin in origins:
        held = False
        for rule, place in zip(origin.rules, origin.places, strict=True):
            holds = rule.is_about(definition) and rule.holds(arguments)
            needs_shell = not holds and not rule.holds(arguments) and replace(rule, shell=True).holds(arguments)  # noqa: S604  a field of ours
            is_stale = not rule.is_about(definition)
            found.append(Examined(rule, place, holds, holds and not held, needs_shell, origin.only_tightens, is_stale))
            held = held or holds
    return found


def _people_rows(people: People) -> Iterator[str]:
    """Say who is asked, who may answer, how many have to say yes, and who is told of it later."""
    if people.ask:
        yield f"It is put to {_with_members(people, people.ask)}{', and no one else may answer' if people.only else ''}."
    if people.approvals > 1:
        yield f"{people.approvals} different people have to say yes; the first no is a no."
    if people.remind_after is not None:
        yield f"They are told again every {amount(people.remind_after)}, at most {MOST_REMINDERS} times."
    for each in people.escalate:
        yield f"After {amount(each.after)} it is put to {_with_members(people, each.to)}, too."


def _with_members(people: People, names: Sequence[str]) -> str:
    return listed([f"{name} ({listed(people.members[name])})" if name in people.members else name for name in names])


def _rule_row(one: Examined) -> list[Shown]:
    when = json.dumps(one.rule.when, ensure_ascii=False) if one.rule.when else "always"
    asked = f"ask {', '.join(one.rule.people.ask)}".rstrip() if one.rule.people else one.rule.run
    return [line("  {}", one.place), line("{}", asked), line("{}", when), line("{}", _standing(one))]


def _standing(one: Examined) -> str:
    if one.is_stale:
        return "does not hold: it was written for another command of the tool"
    if one.needs_shell:
        return "does not hold: the text is more than plain words, and the rule does not say `shell = true`"
    if not one.holds:
        return "does not hold"
    if not one.is_first:
        return "holds, after another one"
    return "holds, and counts where nothing is stricter: its file is not trusted" if one.only_tightens else "holds"


# ----------------------------------------------------------------------------------------------------------------------
# `midturn tools ls`


@click.command
@with_json
def ls_command(*, as_json: bool) -> ExitStatus:
    """List the tools: whether they are offered (`on`, `off`), whether their calls are asked about, and what they do."""
    with known_here() as known:
        if as_json:
            standing = standing_here(known.current, project_here())
            say_json([_json(known, tool, standing) for tool in known.tools.values()])
            return ExitStatus.DONE
        for row in table([_row(known, tool) for tool in known.tools.values()]):
            say(row)
        print_standing(known.current, project_here())
    return ExitStatus.DONE


def _json(known: Known, tool: ToolSettings, standing: Sequence[tuple[OwnRule, str]]) -> JsonObject:
    return {
        "name": tool.name,
        "source": known.source(tool),
        "enabled": tool.enable.state,
        "allow_toggle": tool.enable.allow_toggle,
        "run": tool.policy.run,
        "result": tool.policy.result,
        "summary": _summary(known, tool),
        "standing": [rule_json(rule, stale) for rule, stale in standing if rule.tool in (tool.name, "*") and not rule.agent],
    }


def _row(known: Known, tool: ToolSettings) -> list[Shown]:
    state = line("on" if tool.enable.state else "off")
    return [line("{}", tool.name), state, line("{}", tool.policy.run), line("{}", _summary(known, tool))]


def _summary(known: Known, tool: ToolSettings) -> str:
    """Return the first line of what a model is told."""
    return next(iter(known.definition(tool).description.splitlines()), "")


# ----------------------------------------------------------------------------------------------------------------------
# `midturn tools show`


@click.command
@click.argument("name", shell_complete=complete_tools)
@with_json
def show_command(name: str, *, as_json: bool) -> ExitStatus:
    """Show what a model is told about the tool NAME, and what is configured for it."""
    with known_here() as known:
        tool = known.named(name)
        definition, source = known.definition(tool), known.source(tool)
    if as_json:
        say_json(msgspec.to_builtins(definition))
        return ExitStatus.DONE
    standing = [(rule, stale) for rule, stale in standing_here(known.current, project_here()) if rule.tool == name and not rule.agent]
    facts = [*_facts(tool, source), *(("allowed", _allowed(rule, stale)) for rule, stale in standing)]
    for row in table([(line("{}", what), shown) for what, shown in facts]):
        say(row)
    gutter = line("  ")
    say("\nWhat a model is told:")
    for row in indented(block(definition.description), gutter):
        say(row)
    say("\nParameters:")
    for row in indented(block(json.dumps(definition.parameters, ensure_ascii=False, indent=2)), gutter):
        say(row)
    return ExitStatus.DONE


def _allowed(rule: OwnRule, stale: str) -> Shown:
    """Describe a rule of the user that lets calls of a tool run here, with its scope and its place."""
    read = rule.read
    covers = in_words(read, rule.tool) if read else rule.tool
    where_it_holds = where(rule.scope, rule.project)
    return line("{}, {} ({}){}", covers, where_it_holds, rule.place, f": does not apply, {stale}" if stale else "")


def _facts(tool: ToolSettings, source: str | None) -> Iterator[tuple[str, Shown]]:
    yield "name", line("{}", tool.name)
    yield "source", line("{}", source)
    yield "offered", line("{} (allow_toggle = {})", "yes" if tool.enable.state else "no", tool.enable.allow_toggle)
    yield "run", line("{}", tool.policy.run)
    yield "result", line("{}", tool.policy.result)
    for rule in (one for origin in tool.policy.rules for one in zip(origin.places, origin.rules, strict=True)):
        yield "rule", line("{} {} ({})", rule[1].run, json.dumps(rule[1].when, ensure_ascii=False), rule[0])
    detached = tool.policy.detached
    yield "detached", line("run {}, deliver {}, tool {}", detached.run, detached.deliver, detached.tool)
    if tool.command:
        yield "command", line("{}", " ".join(tool.command))
        yield "protocol", line("{}", tool.protocol)
    asks = [*BUILT_IN_TOOLS.get(tool.name, ()), *(question for question in tool.policy.questions if question != "*")]
    for question in dict.fromkeys(asks):
        yield "asks", line("{} (answered by {})", question, tool.policy.question(question).target.kind)
