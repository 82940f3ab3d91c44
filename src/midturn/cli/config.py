"""`midturn config`: which values hold, who set them, and changing one.

Rules that a person writes stand here, too: at a prompt for a permission, into their own configuration; `midturn tools rules` lists them.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec import Struct

from midturn.assistant.request import INHERIT
from midturn.cli.completing import complete_keys, complete_values
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.loading import load_here, loaded_if_right, report_ignored, said_of_ignored
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, Shown, block, columns, line, note, say, say_json, table, tell
from midturn.cli.place import environment
from midturn.compose.models import refuse_no_model, refuse_unusable
from midturn.config.approvals import Approvals
from midturn.config.edit import Explanation, Setting, SetValue, add_rule, explain, get, keep_trust, remove_rule, set_value, show
from midturn.config.load import Loaded
from midturn.config.places import parse, read_bytes, shown, state_directory, user_config_file
from midturn.config.tree import KeyPath, dotted
from midturn.errors import ConfigError
from midturn.record.open_question import approval_text
from midturn.record.prompt import CallSubject, Prompt, RuleDraft
from midturn.routing.rules import narrowest, read_run_rules
from midturn.sandbox.doors import for_people_only
from midturn.store.workspace import Workspace
from midturn.values.json_value import Json

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
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML wants that one escaped, too
        case Sequence():
            return f"[{', '.join(map(toml, cast('Sequence[Json]', value)))}]"
        case _:
            return json.dumps(value)


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
    """Offers a rule at each permission, for the calls of our own tools or, with `agent`, of that other agent's."""

    agent: str = ""

    def draft(self, prompt: Prompt) -> RuleDraft | None:
        """Return the narrowest rule that would have let this call run; none where a yes answers what its tool would ask as well."""
        if prompt.question.text != approval_text(prompt.kind, prompt.tool):
            return None
        rule = narrowest(prompt.subject.call.arguments) if isinstance(prompt.subject, CallSubject) else None
        return RuleDraft(toml(rule), lambda typed: _problem(typed, prompt)) if rule is not None else None

    def keep(self, prompt: Prompt, rule: str) -> str:
        """Write a rule into the user's own configuration.

        Raises:
            ConfigError: It cannot be written.
        """
        file = user_config_file().resolve()
        add_rule(file, shown(file), self._path(prompt.tool), _read(rule))
        return f"The rule stands in {shown(file)}, and holds from the next turn on. `midturn tools rules` lists your rules."

    def _path(self, tool: str) -> KeyPath:
        return ("agents", self.agent, "tools", tool, "rules") if self.agent else ("conversation", "tools", tool, "rules")


def _read(typed: str) -> Json:
    return cast("Json", tomllib.loads(f"rule = {typed}")["rule"])


def _problem(typed: str, prompt: Prompt) -> str:
    """Say why a rule cannot be written for the call of a prompt; empty where it can."""
    try:
        (rule,) = read_run_rules([_read(typed)])
    except (ConfigError, tomllib.TOMLDecodeError) as error:
        return str(error)
    if rule.run != "unattended":
        return 'A rule that is written with a yes lets calls run: `run = "unattended"`.'
    if not rule.holds(prompt.arguments):
        return "This rule does not hold for this call; a pattern takes plain words alone, unless the rule says `shell = true`."
    return ""


class OwnRule(Struct, frozen=True):
    """A rule of the user's own configuration; `number` counts those at its `path`."""

    path: KeyPath
    number: int
    rule: Mapping[str, Any]

    @property
    def about(self) -> str:
        """The tool that it is about, with the agent whose it is."""
        return self.path[2] if self.path[0] == "conversation" else f"{self.path[3]} of {self.path[1]}"


def own_rules() -> list[OwnRule]:
    """Return the rules of the user's own configuration, in its order.

    Raises:
        ConfigError: It cannot be read.
    """
    file = user_config_file()
    document = parse((read_bytes(file, shown(file), follow=True) or b"").decode(), shown(file))
    return [OwnRule(path, number, rule) for path, rules in _rules(document) for number, rule in enumerate(rules, 1)]


def _rules(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, list[Mapping[str, Any]]]]:
    places: list[tuple[KeyPath, Any]] = [(("conversation", "tools"), document.get("conversation", {}).get("tools", {}))]
    places += [(("agents", agent, "tools"), of.get("tools", {})) for agent, of in document.get("agents", {}).items()]
    for path, tools in places:
        for tool, said in tools.items():
            if isinstance(said, Mapping) and isinstance(rules := cast("Mapping[str, Any]", said).get("rules"), list):
                yield (*path, tool, "rules"), cast("list[Mapping[str, Any]]", rules)


@click.command
@click.option("--remove", type=click.IntRange(min=1), metavar="N", help="Remove the rule with this number.")
@with_json
def rules_command(*, remove: int | None, as_json: bool) -> ExitStatus:
    """List the rules of your own configuration, or remove one. `midturn tools explain` says which rule decides about a call."""
    rules = own_rules()
    if remove is not None:
        _remove(rules, remove)
    elif as_json:
        say_json([{"number": number, "about": one.about, "rule": dict(one.rule)} for number, one in enumerate(rules, 1)])
    elif not rules:
        say("Your own configuration has no rules.")
    else:
        for row in table([(line("{}", number), line("{}", one.about), line("{}", _said(one.rule))) for number, one in enumerate(rules, 1)]):
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
