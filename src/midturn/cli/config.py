"""`midturn config`: which values hold, who set them, and changing one.

Rules that a person writes stand here, too: at a prompt for a permission, into their own configuration; `midturn tools rules` lists them.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, assert_never, cast

import click
import msgspec
from msgspec import Struct

from midturn.agent.assembly.models import refuse_no_model, refuse_unusable
from midturn.cli.command_context import Place, environment
from midturn.cli.completing import complete_keys, complete_values
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.loading import load_here, loaded_if_right, report_ignored, said_of_ignored
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, Shown, block, columns, line, note, say, say_json, table, tell
from midturn.config.approvals import Approvals
from midturn.config.edit import Explanation, Setting, SetValue, explain, get, keep_trust, remove_rule, set_value, show
from midturn.config.load import Loaded
from midturn.config.places import project_of, shown, state_directory, user_config_file
from midturn.config.settings import Settings
from midturn.config.standing import OwnRule, own_rules, rules_here, write_rule
from midturn.config.tree import KeyPath, dotted
from midturn.errors import ConfigError
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import CallSubject, Prompt, RuleDraft
from midturn.question.json_value import Json, JsonObject
from midturn.question.reply import Scope
from midturn.question.text import exact
from midturn.routing.rules import exact_rule, in_words, not_covered, read_run_rules
from midturn.runtime.side_request import INHERIT
from midturn.security.authorization import for_people_only
from midturn.stores.workspace import Workspace
from midturn.terminal.prompts.keys import one_line

command = lazy_group(
    "config",
    "Show and change the configuration. A KEY is dotted, as in TOML: conversation.tools.'*'.run",
    {
        "show": CommandEntry("midturn.cli.config:show_command", "Print every value that holds."),
        "get": CommandEntry("midturn.cli.config:get_command", "Print the value of a key."),
        "set": CommandEntry("midturn.cli.config:set_command", "Write a value into a configuration file."),
        "explain": CommandEntry("midturn.cli.config:explain_command", "Say what a key means, and who set it."),
    },
)


# ----------------------------------------------------------------------------------------------------------------------
# Values as TOML writes them: what `config` prints can be pasted into a file


_INDENT = "  "
_GOES_ON = "\\"
_LAST_SHORT = 0xFFFF


def assignments(table: Mapping[str, Json], path: KeyPath = ()) -> Iterator[tuple[str, str]]:
    """Yield each value below `table` as its dotted key and its TOML; an empty table is a value of its own."""
    for name, value in table.items():
        at = (*path, name)
        if isinstance(value, Mapping) and value:
            yield from assignments(cast("Mapping[str, Json]", value), at)
        else:
            yield dotted(at), toml(value)


def assignment(key: str, value: str, width: int | None) -> list[str]:
    """Write a value so that no word of it is broken in `width` cells: a list one item a row, a text as one of many rows. It stays TOML."""
    whole = f"{key} = {value}"
    if width is None or len(whole) <= width:
        return [whole]
    if value.startswith("[") and value != "[]":
        items = cast("list[Json]", tomllib.loads(f"x = {value}")["x"])
        return [f"{key} = [", *(f"{_INDENT}{toml(one)}," for one in items), "]"]
    if value.startswith('"') and " " in value and not value.startswith('" '):  # spaces at the beginning of a row do not count
        return [f'{key} = """\\', *_filled(value[1:-1], width - len(_INDENT) - len(_GOES_ON))]
    return [whole]


def _filled(text: str, room: int) -> Iterator[str]:
    """Break between words; what stands before the backslash at the end of a row is kept, and what the next row begins with is not."""
    row = ""
    for word in re.findall(r"[^ ]+ *", text):
        if row and len(row) + len(word) > room:
            yield f"{_INDENT}{row}\\"
            row = ""
        row += word
    yield f'{_INDENT}{row}"""'


def toml(value: Json) -> str:
    """Write one value on one line."""
    match value:
        case Mapping():
            table = cast("Mapping[str, Json]", value)
            return "{ " + ", ".join(f"{dotted((key,))} = {toml(one)}" for key, one in table.items()) + " }" if table else "{}"
        case str():
            return "".join(map(_visible, json.dumps(value, ensure_ascii=False)))
        case Sequence():
            return f"[{', '.join(map(toml, cast('Sequence[Json]', value)))}]"
        case _:
            return json.dumps(value)


def _visible(character: str) -> str:
    """Escape a character that nobody sees, or that acts on a terminal: text is read, and may be edited, as it is printed."""
    if exact(f"a{character}") == f"a{character}":
        return character
    return f"\\u{ord(character):04X}" if ord(character) <= _LAST_SHORT else f"\\U{ord(character):08X}"


# ----------------------------------------------------------------------------------------------------------------------
# `midturn config get`


@click.command
@click.argument("key", shell_complete=complete_keys)
@with_json
def get_command(key: str, *, as_json: bool) -> ExitStatus:
    """Print the value that holds for KEY: a string as it is, anything else as TOML, a table line by line."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    value = get(loaded, key)
    if as_json:
        say_json(value)
    elif isinstance(value, str):
        say("{}", value)
    elif isinstance(value, Mapping):
        for name, below in assignments(cast("Mapping[str, Json]", value)):
            say(line("{} = {}", name, below))
    else:
        say("{}", toml(value))
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn config set`


_MAIN = ("assistant", "model", "id")


@click.command
@click.argument("key", shell_complete=complete_keys)
@click.argument("value", shell_complete=complete_values)
@click.option("--user", is_flag=True, help="For all your workspaces: write your own file, not this workspace's.")
def set_command(key: str, value: str, *, user: bool) -> ExitStatus:
    """Set KEY to VALUE (TOML, or else a string) in this workspace's file; comments and order stay."""
    for_people_only("change the configuration")
    workspace = Workspace.find(Path.cwd())
    if user:
        file = user_config_file().resolve()
        _set(file, shown(file), key, value)
    elif workspace is None:
        raise ConfigError("This is not a workspace. `midturn init` makes one, `--user` writes your own file.")
    else:
        set_here(workspace, key, value)
    return ExitStatus.DONE


def set_here(workspace: Workspace, key: str, value: str) -> None:
    """Write the workspace's file; who could approve it before may have it stay approved."""
    before = loaded_if_right()  # setting a value may be how it is mended
    edited = _set(workspace.home / "config.toml", ".midturn/config.toml", key, value)
    after = loaded_if_right()
    if before and after and keep_trust(before, after, edited, Approvals.of(state_directory(), environment())):
        after = loaded_if_right()
    if after is not None:
        _warn_if_overridden(after, key)


def _set(file: Path, name: str, key: str, value: str) -> SetValue:
    edited = set_value(file, name, key, value, _check_model)
    note("midturn: {} = {} in {}.", key, toml(edited.value), name)
    return edited


def _check_model(key: KeyPath, id: str) -> None:
    """Refuse what is no model; one whose provider is still to be configured is only told of.

    Raises:
        ConfigError: No turn could ever ask it.
    """
    if id == INHERIT and key != _MAIN:
        return
    refuse_no_model(id)
    loaded = loaded_if_right()
    try:
        refuse_unusable(id, loaded.settings.llm if loaded else {})
    except ConfigError as error:
        note("midturn: {}", str(error))


def _warn_if_overridden(loaded: Loaded, key: str) -> None:
    """Say so if what was written is not what holds."""
    found = explain(loaded, key)
    if len(found) == 1 and found[0].settings and found[0].settings[0].layer != "workspace":
        note("midturn: it has no effect here: {} sets it, too, and comes first.", found[0].settings[0].place)
    for sentence in said_of_ignored(loaded):
        note(line("midturn: {}", block(sentence)))


# ----------------------------------------------------------------------------------------------------------------------
# `midturn config show`


@click.command
@with_json
def show_command(*, as_json: bool) -> ExitStatus:
    """Print every value that holds here, those of each tool as they apply to it."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    values = show(loaded)
    if as_json:
        say_json(values)
        return ExitStatus.DONE
    for key, value in assignments(values):
        for row in assignment(key, value, columns(sys.stdout)):
            say(line("{}", row))
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn config explain`


@click.command
@click.argument("key", shell_complete=complete_keys)
@with_json
def explain_command(key: str, *, as_json: bool) -> ExitStatus:
    """Say what KEY means, which value holds, and every place that sets it: the first one counts."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    found = explain(loaded, key)
    if as_json:
        say_json([_json(one) for one in found])
        return ExitStatus.DONE
    for one in found:
        _print(one)
    return ExitStatus.DONE


def _print(one: Explanation) -> None:
    if one.settings:
        say("{} = {}", one.key, toml(one.value))
    else:
        say("{} is not set", one.key)
    if one.help:
        tell("  {}", one.help)
    for place, setting in enumerate(one.settings):
        tell(_setting(setting, one, holds=place == 0))


def _setting(setting: Setting, one: Explanation, *, holds: bool) -> Shown:
    """Show who set a value; the key only where it is spelled differently, the value only where it does not hold."""
    place = line("") if setting.place == setting.layer else line(", {}", setting.place)
    spelled = line(", as {}", setting.key) if setting.key != one.key else line("")
    if holds:
        return line("  set by {}{}{}", setting.layer, place, spelled)
    return line("  over {}{}{}: {}", setting.layer, place, spelled, toml(setting.value))


def _json(one: Explanation) -> Json:
    return msgspec.to_builtins(one)


class WrittenRules(Struct, frozen=True):
    """Offers a standing permission at each prompt for a call, for calls of our own tools or, with `agent`, of that other agent's.

    `project` is the directory that a rule for a project holds for.
    """

    project: str
    agent: str = ""

    def draft(self, prompt: Prompt) -> RuleDraft | None:
        """Return the rule for calls with equal arguments, if a yes may have a scope."""
        if not prompt.scopes or not isinstance(prompt.subject, CallSubject):
            return None
        rule = exact_rule(prompt.subject.call.arguments)
        if rule is None:
            return None
        return RuleDraft(toml(rule), partial(_problem, prompt), prompt.scopes, partial(self._said, prompt))

    def _said(self, prompt: Prompt, typed: str, scope: Scope) -> tuple[str, ...]:
        try:
            (rule,) = read_run_rules([_read(typed)])
        except (ConfigError, tomllib.TOMLDecodeError):
            return ()
        tool, example = one_line(prompt.tool), not_covered(rule, one_line(prompt.tool), prompt.arguments)
        covers = f"Runs without asking, {where(scope, self.project)}: {in_words(rule, tool)}."
        return (covers, f"Does not cover: {example}." if example else "It covers every similar call that was tried.")

    def table(self, prompt: Prompt, rule: str) -> JsonObject:
        """Return a rule that was typed, as a table that is bound to the tool of the call."""
        read = cast("JsonObject", _read(rule))
        return {**read, "definition": prompt.definition} if prompt.definition else read

    def keep(self, prompt: Prompt, rule: str, scope: Scope) -> str:
        """Write a rule into the user's own configuration.

        Raises:
            ConfigError: It cannot be written.
        """
        project = self.project if scope == "project" else ""
        file = write_rule(self.table(prompt, rule), prompt.tool, agent=self.agent, project=project)
        return f"Written to {shown(file)}, {where(scope, self.project)}, from the next turn on. `midturn tools rules` lists your rules."


def write_permission(place: Place, question: OpenQuestion, rule: JsonObject | None, scope: Scope) -> str:
    """Write a permission for later calls, which a yes to a question was given with, into the user's own configuration.

    Raises:
        ConfigError: It cannot be written.
    """
    written = exact_rule(question.arguments, question.definition) if rule is None else rule
    agent, project = question.asker.agent if question.asker else "", project_asked_from(place, question)
    file = write_rule(written, question.tool, agent=agent, project=project if scope == "project" else "")
    return f"Written to {shown(file)}, {where(scope, project)}, from the next turn on."


def project_asked_from(place: Place, question: OpenQuestion) -> str:
    """Return the project that a question is asked from: the directory that another agent works in, or that of the conversation."""
    if question.asker is None or not question.asker.cwd:
        return place.project
    directory = Path(question.asker.cwd)
    workspace = Workspace.find(directory)
    return project_of(workspace.root if workspace else directory)


def where(scope: Scope, project: str) -> str:
    """Say where a standing permission holds."""
    match scope:
        case "conversation":
            return "in this conversation"
        case "project":
            return f"in the project {shown(Path(project))}"
        case "everywhere":
            return "in every project"
        case _ as other:
            assert_never(other)


def _read(typed: str) -> Json:
    return cast("Json", tomllib.loads(f"rule = {typed}")["rule"])


def _problem(prompt: Prompt, typed: str) -> str:
    """Say why a rule cannot be written for the call of a prompt; empty if it can."""
    try:
        (rule,) = read_run_rules([_read(typed)])
    except (ConfigError, tomllib.TOMLDecodeError) as error:
        return str(error)
    if rule.run != "unattended":
        return 'A rule that is written with a yes lets calls run: `run = "unattended"`.'
    if rule.definition:
        return "`definition` is the fingerprint of the tool, which is added when the rule is written: leave it out."
    if not rule.holds(prompt.arguments):
        return "This rule does not hold for this call; a pattern takes plain words alone, unless the rule says `shell = true`."
    return ""


@click.command
@click.option("--remove", type=click.IntRange(min=1), metavar="N", help="Remove the rule with this number.")
@with_json
def rules_command(*, remove: int | None, as_json: bool) -> ExitStatus:
    """List the rules of your own configuration, or remove one. `midturn tools explain` says which rule decides about a call."""
    rules = own_rules()
    if remove is not None:
        _remove(rules, remove)
    elif as_json:
        say_json([{"number": number, **rule_json(one)} for number, one in enumerate(rules, 1)])
    elif not rules:
        say("Your own configuration has no rules.")
    else:
        for row in table([(line("{}", number), *rule_row(one)) for number, one in enumerate(rules, 1)]):
            say(row)
    return ExitStatus.DONE


def _remove(rules: list[OwnRule], number: int) -> None:
    for_people_only("change the configuration")
    if number > len(rules):
        raise ConfigError(f"There is no rule {number}: `midturn tools rules` lists those that there are.")
    one, file = rules[number - 1], user_config_file().resolve()
    remove_rule(file, shown(file), one.path, one.number)
    note("midturn: removed the rule about {} from {}: {}", one.about, shown(file), _said(one.rule))


def _said(rule: Mapping[str, Any]) -> str:
    return toml(cast("Json", json.loads(json.dumps(rule, default=str))))


def rule_row(one: OwnRule, stale: str = "") -> tuple[Shown, ...]:
    """Return a rule as a row: what it is about, where it holds, the rule and its place, and why it does not apply, if so."""
    holds = shown(Path(one.project)) if one.project else "everywhere"
    return line("{}", one.about), line("{}", holds), line("{}", _said(one.rule)), line("{}{}", one.place, f" ({stale})" if stale else "")


def rule_json(one: OwnRule, stale: str = "") -> JsonObject:
    """Return a rule for programs."""
    found: JsonObject = {"about": one.about, "scope": one.scope, "project": one.project or None, "rule": dict(one.rule), "place": one.place}
    return {**found, "stale": stale} if stale else found


def standing_here(settings: Settings, project: str) -> list[tuple[OwnRule, str]]:
    """Return the rules of the user's own configuration that let calls run in a project, each with why it does not apply, if so."""
    return [(rule, rule.stale(settings, project)) for rule in rules_here(project)]


def print_standing(settings: Settings, project: str) -> None:
    """Print the rules of the user's own configuration that let calls run in a project, if there are any."""
    found = standing_here(settings, project)
    if found:
        say("Your own rules let these calls run here without asking:")
        for row in table([(line(" "), *rule_row(rule, stale)) for rule, stale in found]):
            say(row)
