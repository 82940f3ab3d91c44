"""`midturn config`: show, explain and change configuration values.

This module also handles standing permissions: rules that a user adds at a prompt, and
`midturn tools rules`, which lists them.
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
from midturn.cli.command_context import CommandContext, environment
from midturn.cli.completing import complete_keys, complete_values
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.loading import ignored_warnings, load_here, loaded_if_right, report_ignored
from midturn.cli.options import with_json
from midturn.cli.output import (
    ExitStatus,
    Shown,
    block,
    columns,
    line,
    note,
    say,
    say_json,
    table,
    tell,
)
from midturn.config.approvals import Approvals
from midturn.config.edit import (
    Explanation,
    Setting,
    SetValue,
    explain,
    get,
    keep_trust,
    remove_rule,
    set_value,
    show,
)
from midturn.config.load import Loaded
from midturn.config.places import project_of, shown, state_directory, user_config_file
from midturn.config.settings import Settings
from midturn.config.standing_permissions import OwnRule, own_rules, rules_here, write_rule
from midturn.config.tree import KeyPath, dotted
from midturn.errors import ConfigError
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import CallSubject, Prompt, RuleDraft
from midturn.question.json_value import Json, JsonObject
from midturn.question.reply import Scope
from midturn.question.text import exact
from midturn.routing.rules import describe_rule, exact_rule, not_covered, read_run_rules
from midturn.runtime.side_request import INHERIT
from midturn.security.authorization import require_human
from midturn.stores.workspace import Workspace
from midturn.terminal.prompts.keys import one_line

command = lazy_group(
    "config",
    "Show and change the configuration. KEY is dotted, as in TOML: conversation.tools.'*'.run",
    {
        "show": CommandEntry(
            "midturn.cli.config:show_command", "Print the effective configuration"
        ),
        "get": CommandEntry("midturn.cli.config:get_command", "Print the effective value of a key"),
        "set": CommandEntry("midturn.cli.config:set_command", "Set a key"),
        "explain": CommandEntry(
            "midturn.cli.config:explain_command", "Explain a key and list every place that sets it"
        ),
    },
)


# --------------------------------------------------------------------------------------------------
# Values formatted as TOML, so that the output of `config` can be pasted into a file


_INDENT = "  "
_CONTINUATION = "\\"
_MAX_BMP = 0xFFFF  # the largest code point that \u can represent


def assignments(table: Mapping[str, Json], path: KeyPath = ()) -> Iterator[tuple[str, str]]:
    """Yield each value in `table` as a dotted key and TOML text. An empty table counts as a
    value.
    """
    for name, value in table.items():
        at = (*path, name)
        if isinstance(value, Mapping) and value:
            yield from assignments(cast("Mapping[str, Json]", value), at)
        else:
            yield dotted(at), toml(value)


def assignment(key: str, value: str, width: int | None) -> list[str]:
    """Format a value as TOML rows of at most `width` cells.

    Words are not broken. A list has one item per row, and a string becomes a multi-line string.
    """
    whole = f"{key} = {value}"
    if width is None or len(whole) <= width:
        return [whole]
    if value.startswith("[") and value != "[]":
        items = cast("list[Json]", tomllib.loads(f"x = {value}")["x"])
        return [f"{key} = [", *(f"{_INDENT}{toml(item)}," for item in items), "]"]
    if (
        value.startswith('"') and " " in value and not value.startswith('" ')
    ):  # TOML drops spaces at the start of a row
        return [f'{key} = """\\', *_filled(value[1:-1], width - len(_INDENT) - len(_CONTINUATION))]
    return [whole]


def _filled(text: str, room: int) -> Iterator[str]:
    """Break text between words.

    A trailing backslash keeps the spaces before it and drops the spaces at the start of the next
    row.
    """
    row = ""
    for word in re.findall(r"[^ ]+ *", text):
        if row and len(row) + len(word) > room:
            yield f"{_INDENT}{row}\\"
            row = ""
        row += word
    yield f'{_INDENT}{row}"""'


def toml(value: Json) -> str:
    """Format a value as TOML on one line."""
    match value:
        case Mapping():
            table = cast("Mapping[str, Json]", value)
            return (
                "{ "
                + ", ".join(f"{dotted((key,))} = {toml(item)}" for key, item in table.items())
                + " }"
                if table
                else "{}"
            )
        case str():
            return "".join(map(_visible, json.dumps(value, ensure_ascii=False)))
        case Sequence():
            return f"[{', '.join(map(toml, cast('Sequence[Json]', value)))}]"
        case _:
            return json.dumps(value)


def _visible(character: str) -> str:
    """Escape a character if it is invisible or a control character, so that the user can see and
    edit it in the output.
    """
    if exact(f"a{character}") == f"a{character}":
        return character
    return f"\\u{ord(character):04X}" if ord(character) <= _MAX_BMP else f"\\U{ord(character):08X}"


# --------------------------------------------------------------------------------------------------
# `midturn config get`


@click.command
@click.argument("key", shell_complete=complete_keys)
@with_json
def get_command(key: str, *, as_json: bool) -> ExitStatus:
    """Print the effective value of KEY

    Prints strings as text and other values as TOML, a table with one line per key.
    """
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


# --------------------------------------------------------------------------------------------------
# `midturn config set`


_MAIN_MODEL = ("assistant", "model", "id")


@click.command
@click.argument("key", shell_complete=complete_keys)
@click.argument("value", shell_complete=complete_values)
@click.option(
    "--user", is_flag=True, help="Write your user configuration instead of the workspace's"
)
def set_command(key: str, value: str, *, user: bool) -> ExitStatus:
    """Set KEY to VALUE in the workspace's configuration

    VALUE is TOML or text. Comments and order are kept.

    Example: midturn config set conversation.tools.deploy.run unattended
    """
    require_human("change the configuration")
    workspace = Workspace.find(Path.cwd())
    if user:
        file = user_config_file().resolve()
        _set(file, shown(file), key, value)
    elif workspace is None:
        raise ConfigError(
            "This directory is not a workspace. Run `midturn init` to create one, or use `--user`"
            " to write your user configuration."
        )
    else:
        set_here(workspace, key, value)
    return ExitStatus.DONE


def set_here(workspace: Workspace, key: str, value: str) -> None:
    """Change the workspace's file. If the file was approved before, approve the changed file."""
    before = loaded_if_right()  # None if the file is invalid: setting a value may correct it
    edited = _set(workspace.home / "config.toml", ".midturn/config.toml", key, value)
    after = loaded_if_right()
    if (
        before
        and after
        and keep_trust(before, after, edited, Approvals.of(state_directory(), environment()))
    ):
        after = loaded_if_right()
    if after is not None:
        _warn_if_overridden(after, key)


def _set(file: Path, name: str, key: str, value: str) -> SetValue:
    edited = set_value(file, name, key, value, _check_model)
    note("midturn: {} = {} in {}.", key, toml(edited.value), name)
    return edited


def _check_model(key: KeyPath, id: str) -> None:
    """Reject an invalid model ID. If only its provider is not configured yet, print a warning.

    Raises:
        ConfigError: The ID can never be used.
    """
    if id == INHERIT and key != _MAIN_MODEL:
        return
    refuse_no_model(id)
    loaded = loaded_if_right()
    try:
        refuse_unusable(id, loaded.settings.llm if loaded else {})
    except ConfigError as error:
        note("midturn: {}", str(error))


def _warn_if_overridden(loaded: Loaded, key: str) -> None:
    """Print a warning if another place overrides the value that was set."""
    found = explain(loaded, key)
    if len(found) == 1 and found[0].settings and found[0].settings[0].layer != "workspace":
        note(
            "midturn: the value has no effect here, because {} overrides it.",
            found[0].settings[0].place,
        )
    for sentence in ignored_warnings(loaded):
        note(line("midturn: {}", block(sentence)))


# --------------------------------------------------------------------------------------------------
# `midturn config show`


@click.command
@with_json
def show_command(*, as_json: bool) -> ExitStatus:
    """Print the effective configuration"""
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


# --------------------------------------------------------------------------------------------------
# `midturn config explain`


@click.command
@click.argument("key", shell_complete=complete_keys)
@with_json
def explain_command(key: str, *, as_json: bool) -> ExitStatus:
    """Explain KEY and list every place that sets it, by precedence"""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    found = explain(loaded, key)
    if as_json:
        say_json([_json(explanation) for explanation in found])
        return ExitStatus.DONE
    for explanation in found:
        _print(explanation)
    return ExitStatus.DONE


def _print(explanation: Explanation) -> None:
    if explanation.settings:
        say("{} = {}", explanation.key, toml(explanation.value))
    else:
        say("{} is not set", explanation.key)
    if explanation.help:
        tell("  {}", explanation.help)
    for index, setting in enumerate(explanation.settings):
        tell(_setting(setting, explanation, is_effective=index == 0))


def _setting(setting: Setting, explanation: Explanation, *, is_effective: bool) -> Shown:
    """Return a line that shows where a value is set.

    It includes the key if that place spells the key differently, and the value if it is overridden.
    """
    place = line("") if setting.place == setting.layer else line(", {}", setting.place)
    spelled = line(", as {}", setting.key) if setting.key != explanation.key else line("")
    if is_effective:
        return line("  set by {}{}{}", setting.layer, place, spelled)
    return line("  overrides {}{}{}: {}", setting.layer, place, spelled, toml(setting.value))


def _json(explanation: Explanation) -> Json:
    return msgspec.to_builtins(explanation)


class WrittenRules(Struct, frozen=True):
    """Offers standing permissions at prompts, and stores them as rules.

    The rules apply to calls of midturn's own tools, or of another `agent`'s tools. Rules with the
    scope `project` apply in the directory `project`.
    """

    project: str
    agent: str = ""

    def draft(self, prompt: Prompt) -> RuleDraft | None:
        """Return a draft rule for calls with the same arguments.

        Return None if no scope can be selected.
        """
        if not prompt.scopes or not isinstance(prompt.subject, CallSubject):
            return None
        rule = exact_rule(prompt.subject.call.arguments)
        if rule is None:
            return None
        return RuleDraft(
            toml(rule), partial(_problem, prompt), prompt.scopes, partial(self._preview, prompt)
        )

    def _preview(self, prompt: Prompt, typed: str, scope: Scope) -> tuple[str, ...]:
        try:
            (rule,) = read_run_rules([_read(typed)])
        except (ConfigError, tomllib.TOMLDecodeError):
            return ()
        tool, example = (
            one_line(prompt.tool),
            not_covered(rule, one_line(prompt.tool), prompt.arguments),
        )
        covers = f"Runs without asking, {where(scope, self.project)}: {describe_rule(rule, tool)}."
        return (
            covers,
            (
                f"Does not cover: {example}."
                if example
                else "Covers every similar call that was tried."
            ),
        )

    def table(self, prompt: Prompt, rule: str) -> JsonObject:
        """Parse a typed rule, and bind it to the definition of the called tool."""
        read = cast("JsonObject", _read(rule))
        return {**read, "definition": prompt.definition} if prompt.definition else read

    def keep(self, prompt: Prompt, rule: str, scope: Scope) -> str:
        """Add a rule to the user's own configuration.

        Raises:
            ConfigError: The file cannot be written.
        """
        project = self.project if scope == "project" else ""
        file = write_rule(self.table(prompt, rule), prompt.tool, agent=self.agent, project=project)
        return (
            f"Saved in {shown(file)}. Applies {where(scope, self.project)} from the next turn on."
            " To list your rules: `midturn tools rules`"
        )


def write_permission(
    place: CommandContext, question: OpenQuestion, rule: JsonObject | None, scope: Scope
) -> str:
    """Write a permission that was given with an answer to the user's own configuration.

    Raises:
        ConfigError: The file cannot be written.
    """
    written = exact_rule(question.arguments, question.definition) if rule is None else rule
    agent, project = (
        question.asker.agent if question.asker else "",
        project_asked_from(place, question),
    )
    file = write_rule(
        written, question.tool, agent=agent, project=project if scope == "project" else ""
    )
    return f"Saved in {shown(file)}. Applies {where(scope, project)} from the next turn on."


def project_asked_from(place: CommandContext, question: OpenQuestion) -> str:
    """Return the project directory of a question.

    It is the project of the external agent's working directory, or else the current project.
    """
    if question.asker is None or not question.asker.cwd:
        return place.project
    directory = Path(question.asker.cwd)
    workspace = Workspace.find(directory)
    return project_of(workspace.root if workspace else directory)


def where(scope: Scope, project: str) -> str:
    """Return a phrase for the projects or the conversation in which a standing permission applies."""
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
    """Return why a rule cannot be added for the call, or an empty string if it can."""
    try:
        (rule,) = read_run_rules([_read(typed)])
    except (ConfigError, tomllib.TOMLDecodeError) as error:
        return str(error)
    if rule.run != "unattended":
        return 'A rule that you add with an approval must have `run = "unattended"`.'
    if rule.definition:
        return (
            "Remove `definition`: it is the fingerprint of the tool and is added when the rule is"
            " saved."
        )
    if not rule.holds(prompt.arguments):
        return (
            "The rule does not match this call. Patterns only match simple commands unless the rule"
            " sets `shell = true`."
        )
    return ""


@click.command
@click.option("--remove", type=click.IntRange(min=1), metavar="N", help="Remove rule N")
@with_json
def rules_command(*, remove: int | None, as_json: bool) -> ExitStatus:
    """List or remove the rules in your user configuration

    To see which rule applies to a call, use `midturn tools explain`.
    """
    rules = own_rules()
    if remove is not None:
        _remove(rules, remove)
    elif as_json:
        say_json([{"number": number, **rule_json(rule)} for number, rule in enumerate(rules, 1)])
    elif not rules:
        say("Your user configuration has no rules.")
    else:
        for row in table(
            [(line("{}", number), *rule_row(rule)) for number, rule in enumerate(rules, 1)]
        ):
            say(row)
    return ExitStatus.DONE


def _remove(rules: list[OwnRule], number: int) -> None:
    require_human("change the configuration")
    if number > len(rules):
        raise ConfigError(
            f"There is no rule {number}. Run `midturn tools rules` to list your rules."
        )
    rule, file = rules[number - 1], user_config_file().resolve()
    remove_rule(file, shown(file), rule.path, rule.number)
    note(
        "midturn: removed the rule for {} from {}: {}",
        rule.about,
        shown(file),
        _rule_text(rule.rule),
    )


def _rule_text(rule: Mapping[str, Any]) -> str:
    return toml(cast("Json", json.loads(json.dumps(rule, default=str))))


def rule_row(rule: OwnRule, stale: str = "") -> tuple[Shown, ...]:
    """Return a rule as a table row: its tool, its scope, the rule, and its place.

    `stale` says why the rule does not apply, or is empty.
    """
    scope = shown(Path(rule.project)) if rule.project else "everywhere"
    place = line("{}{}", rule.place, f" ({stale})" if stale else "")
    return line("{}", rule.about), line("{}", scope), line("{}", _rule_text(rule.rule)), place


def rule_json(rule: OwnRule, stale: str = "") -> JsonObject:
    """Return a rule as JSON."""
    found: JsonObject = {
        "about": rule.about,
        "scope": rule.scope,
        "project": rule.project or None,
        "rule": dict(rule.rule),
        "place": rule.place,
    }
    return {**found, "stale": stale} if stale else found


def standing_here(settings: Settings, project: str) -> list[tuple[OwnRule, str]]:
    """Return the user's own rules that let calls run in a project.

    A rule that does not apply is returned with the reason.
    """
    return [(rule, rule.stale(settings, project)) for rule in rules_here(project)]


def print_standing(settings: Settings, project: str) -> None:
    """Print the user's own rules that let calls run in a project, if any."""
    found = standing_here(settings, project)
    if found:
        say("Your own rules let these calls run here without asking:")
        for row in table([(line(" "), *rule_row(rule, stale)) for rule, stale in found]):
            say(row)
