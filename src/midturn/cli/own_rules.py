"""Rules that a person writes: at a prompt for a permission, into their own configuration; and `midturn tools rules`, which lists them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import click
from msgspec import Struct

from midturn.cli.config import toml
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, line, note, say, say_json, table
from midturn.config.edit import add_rule, remove_rule
from midturn.config.places import parse, read_bytes, shown, user_config_file
from midturn.config.tree import KeyPath
from midturn.errors import ConfigError
from midturn.record.prompt import CallSubject, Prompt, RuleDraft, approval_text
from midturn.routing.rules import narrowest, read_run_rules
from midturn.sandbox.doors import for_people_only
from midturn.values.json_value import Json


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
