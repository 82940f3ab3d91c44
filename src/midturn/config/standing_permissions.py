"""Standing permissions: the rules in the user's own configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from midturn.config.edit import add_rule
from midturn.config.places import parse, read_bytes, shown, user_config_file
from midturn.config.settings import Settings
from midturn.config.tree import KeyPath, key_lines
from midturn.errors import ConfigError
from midturn.question.json_value import Json
from midturn.question.reply import Scope
from midturn.routing.rules import RunRule, read_run_rules

_PROJECTS = "projects"


class OwnRule(Struct, frozen=True):
    """A rule in the user's own configuration.

    `number` is its position in the list at `path`. `place` is its file and line.
    """

    path: KeyPath
    number: int
    rule: Mapping[str, Any]
    place: str = ""

    @property
    def project(self) -> str:
        """The directory of the project to which the rule applies, or empty for a rule that applies
        everywhere.
        """
        return self.path[1] if self.path[0] == _PROJECTS else ""

    @property
    def scope(self) -> Scope:
        """Whether the rule applies to a project or everywhere."""
        return "project" if self.project else "everywhere"

    @property
    def _below(self) -> KeyPath:
        return self.path[2:] if self.project else self.path

    @property
    def agent(self) -> str:
        """The agent to which the rule applies, or empty for midturn's own tools."""
        return self._below[1] if self._below[0] == "agents" else ""

    @property
    def tool(self) -> str:
        """The tool to which the rule applies."""
        return self.path[-2]

    @property
    def about(self) -> str:
        """The tool to which the rule applies, with its agent."""
        return f"{self.tool} of {self.agent}" if self.agent else self.tool

    @property
    def read(self) -> RunRule | None:
        """The parsed rule, or None if the rule is invalid."""
        try:
            return read_run_rules([self.rule])[0]
        except ConfigError:
            return None

    @property
    def lets_run(self) -> bool:
        """Whether the rule lets calls run without asking."""
        rule = self.read
        return rule is not None and rule.is_permissive

    def applies(self, project: str) -> bool:
        """Return whether the rule applies in the project directory `project`."""
        return self.project in ("", project)

    def stale(self, settings: Settings, project: str) -> str:
        """Return why the rule no longer applies, or an empty string if it applies.

        `settings` are the settings of `project`.
        """
        if self.project and not Path(self.project).is_dir():
            return "its directory no longer exists"
        rule = self.read
        if rule is None or not rule.definition or self.agent or not self.applies(project):
            return ""
        return (
            ""
            if rule.is_about(settings.definition_of(self.tool))
            else f"the command of {self.tool} has changed"
        )


def own_rules() -> list[OwnRule]:
    """Return the rules in the user's own configuration, in file order.

    Raises:
        ConfigError: The configuration cannot be read.
    """
    file = user_config_file()
    text = (read_bytes(file, shown(file), follow=True) or b"").decode()
    document, lines = parse(text, shown(file)), key_lines(text)
    found: list[OwnRule] = []
    for path, rules in _rules(document):
        for number, rule in enumerate(rules, 1):
            at = (*path, str(number - 1))
            line = next(
                (lines[at[:length]] for length in range(len(at), 0, -1) if at[:length] in lines),
                None,
            )
            found.append(
                OwnRule(
                    path, number, rule, shown(file) if line is None else f"{shown(file)}:{line}"
                )
            )
    return found


def _rules(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, list[Mapping[str, Any]]]]:
    places: list[tuple[KeyPath, Any]] = [
        (("conversation", "tools"), document.get("conversation", {}).get("tools", {}))
    ]
    places += [
        (("agents", agent, "tools"), of.get("tools", {}))
        for agent, of in document.get("agents", {}).items()
    ]
    for directory, of in document.get(_PROJECTS, {}).items():
        places.append(((_PROJECTS, directory, "tools"), of.get("tools", {})))
        agents = of.get("agents", {}).items()
        places += [
            ((_PROJECTS, directory, "agents", agent, "tools"), below.get("tools", {}))
            for agent, below in agents
        ]
    for path, tools in places:
        for tool, settings in tools.items():
            if isinstance(settings, Mapping) and isinstance(
                rules := cast("Mapping[str, Any]", settings).get("rules"), list
            ):
                yield (*path, tool, "rules"), cast("list[Mapping[str, Any]]", rules)


def rules_here(project: str) -> list[OwnRule]:
    """Return the user's own rules that let calls run in the project directory `project`."""
    return [rule for rule in own_rules() if rule.lets_run and rule.applies(project)]


def write_rule(rule: Json, tool: str, *, agent: str = "", project: str = "") -> Path:
    """Add a rule to the user's own configuration, for one project or for all. Return the file.

    Raises:
        ConfigError: The rule is invalid, or the file cannot be written.
    """
    file = user_config_file().resolve()
    around = (_PROJECTS, project) if project else () if agent else ("conversation",)
    add_rule(
        file,
        shown(file),
        (*around, *(("agents", agent) if agent else ()), "tools", tool, "rules"),
        rule,
    )
    return file
