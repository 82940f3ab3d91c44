"""Resolves merged configuration layers into settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import split
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct

from midturn.config.approvals import BoundScript, scripts_of
from midturn.config.assign import ANSWER
from midturn.config.check import one_of
from midturn.config.settings import (
    AssistantSettings,
    ChannelTable,
    DisplaySettings,
    Enable,
    LlmProvider,
    McpProtocol,
    McpServerSettings,
    NotificationSettings,
    Settings,
    Toggle,
    ToolSettings,
    ToolSource,
    UserSettings,
    WebSettings,
)
from midturn.config.tree import KeyPath, Tree, TreeEntry, branch, dotted, entries, entry, plain
from midturn.events.types import ASSISTANT, Source
from midturn.exchange import Family
from midturn.question.json_value import Json, JsonObject, Limits, canonical, overlay, pointer_parts
from midturn.question.people import Directory, People, Person, read_people
from midturn.question.schema import check_schema
from midturn.question.text import (
    ASK_USER,
    BUILT_IN_TOOLS,
    canonical_name,
    did_you_mean,
    is_same_name,
    sha256,
)
from midturn.routing import policy
from midturn.routing.rules import RunRules, read_run_rules
from midturn.security.profile import Declared
from midturn.terminal.prompts.settings import ScreenSettings

# --------------------------------------------------------------------------------------------------
# Tool policies: whether a call needs approval, and who answers the tool's questions


_PROGRAM_KEYS = ("command", "shell", "plugin", "cwd", "environment")
"""Keys that determine which program a tool runs."""


def tool_policy(
    name: str, tool: Tree, rules: tuple[RunRules, ...], root: Path
) -> policy.ToolPolicy:
    """Return the policy of the tool `name`, whose merged values are `tool`.

    Its command runs in the directory `root`.
    """
    values = plain(tool)
    is_program = "command" in values or "plugin" in values
    files = scripts_of(tool, root) if "command" in values else ()
    return policy.ToolPolicy(
        source=ASSISTANT if name == ASK_USER else Source.tool(name),
        run=cast("policy.RunPolicy", values["run"]),
        rules=rules,
        result=cast("policy.ResultPolicy", values["result"]),
        detached=msgspec.convert(values["detached"], policy.DetachedPolicies),
        questions={
            id_or_star: _question(branch(tool, "questions", id_or_star))
            for id_or_star in branch(tool, "questions")
        },
        is_program="command" in values,
        deadline=cast("float | None", values.get("deadline")),
        takes_deadlines=values.get("deadlines") is True,
        definition=_fingerprint(tool, _PROGRAM_KEYS, files) if is_program else "",
        is_local=is_program and (bool(files) or _is_local(tool, _PROGRAM_KEYS)),
    )


_FINGERPRINT_LENGTH = 16


def _fingerprint(table: Tree, keys: Sequence[str], files: Sequence[BoundScript]) -> str:
    """Return a fingerprint of the program that a table configures.

    The fingerprint includes the workspace files that the program's command runs.
    """
    values = plain(table)
    named: dict[str, Json] = {key: values[key] for key in keys if key in values}
    bound: dict[str, Json] = {"files": {file.name: file.state for file in files}} if files else {}
    return sha256(canonical({**named, **bound}))[:_FINGERPRINT_LENGTH]


def _is_local(table: Tree, keys: Sequence[str]) -> bool:
    """Return whether a workspace file sets one of these keys."""
    found = (below for key in keys if (below := table.get(key)) is not None)
    return any(
        value.origin.in_workspace
        for below in found
        for value in ([below] if isinstance(below, TreeEntry) else dict(entries(below)).values())
    )


def _question(fields: Tree) -> policy.QuestionPolicy:
    answer = entry(fields, "answer")
    values = plain(fields)
    return policy.QuestionPolicy(
        target=_target(branch(fields, "target")),
        answer=_answer(answer) if answer else UNSET,
        origin=answer.origin.name if answer else None,
        exclusive=cast("bool | None", values.get("exclusive")),
        prompt_label=cast("str | None", values.get("prompt_label")),
        deadline=cast("float | None", values.get("deadline")),
        people=read_people(values["people"]) if "people" in values else None,
    )


def _answer(answer: TreeEntry) -> Json | policy.Words:
    """Return a configured answer: `Words` for the text of `--answer`, otherwise the value."""
    is_typed = answer.origin.name == ANSWER and isinstance(answer.value, str)
    return policy.Words(str(answer.value)) if is_typed else answer.value


def _target(fields: Tree) -> policy.Target:
    who = entry(fields, "")
    if who is None or who.value == "user":
        return policy.Target()
    settings = plain(fields)
    kind: policy.TargetKind = (
        "assistant_with_escalation" if settings.pop("escalation", False) else "assistant"
    )
    return policy.Target(kind, settings or None)


# --------------------------------------------------------------------------------------------------
# Looking up values in the merged layers, and collecting errors


class Resolving(Struct, frozen=True):
    """The merged layers, and the errors found while resolving them.

    `withheld` contains the keys that were omitted because they are invalid or not approved. `parts`
    lists each file, variable and flag that sets values, lowest first. Commands run in the directory
    `root`.
    """

    merged: Tree
    withheld: frozenset[KeyPath]
    problems: list[str]
    parts: tuple[Tree, ...]
    root: Path

    def problem(self, path: KeyPath, message: str) -> None:
        """Add an error message about the key `path`.

        The message starts with the location of the key; see `place`.
        """
        place = self.place(path)
        self.problems.append(
            f"{place}: `{dotted(path)}`: {message}" if place else f"`{dotted(path)}`: {message}"
        )

    def place(self, path: KeyPath) -> str:
        """Return the location of `path`, or of the first value below it, such as `config.toml:3`.

        For a key inside a value, the line is the line of that key. Return an empty string if the
        location is unknown.
        """
        found = entry(self.merged, *path) or next(
            (below for _, below in entries(branch(self.merged, *path))), None
        )
        if found:
            return found.place
        around = next(
            (
                value
                for length in range(len(path) - 1, 0, -1)
                if (value := entry(self.merged, *path[:length]))
            ),
            None,
        )
        return around.origin.place(path) if around else ""

    def named(self, path: KeyPath) -> str:
        """Return a key with its location, to mention it in a message about another key."""
        place = self.place(path)
        return f"`{dotted(path)}` ({place})" if place else f"`{dotted(path)}`"

    def rules(self, *tool: str) -> tuple[RunRules, ...]:
        """Return the rules for the tool at this path.

        For each file, variable or flag, the tool's own rules come first, then the rules of `'*'`.
        """
        paths = list(dict.fromkeys([(*tool, "rules"), (*tool[:-1], "*", "rules")]))
        found = ([rules for path in paths if (rules := entry(part, *path))] for part in self.parts)
        return tuple(_rules(written) for written in found if written)

    def is_withheld(self, *path: str) -> bool:
        """Return whether a value at or below `path` was omitted."""
        return any(omitted[: len(path)] == path for omitted in self.withheld)

    def command(self, value: Json, path: KeyPath) -> tuple[str, ...]:
        """Return the program and its arguments. A string is split like a shell command."""
        if not isinstance(value, str):
            return tuple(map(str, value)) if isinstance(value, list | tuple) else ()

        try:
            words = split(value)
        except ValueError as error:
            self.problem(path, f"cannot be split into words ({error}); use a list instead")
            return ()
        return tuple(words)


def _rules(written: Sequence[TreeEntry]) -> RunRules:
    """Return the rules of one file, variable or flag, each with its file and line."""
    rules = [read_run_rules(cast("Sequence[object]", entry.value)) for entry in written]
    places = [
        place
        for entry, read in zip(written, rules, strict=True)
        for place in _places(entry, len(read))
    ]
    only_tightens = not all(entry.origin.approved for entry in written)
    return RunRules(
        tuple(rule for read in rules for rule in read), tuple(places), only_tightens=only_tightens
    )


def _places(written: TreeEntry, count: int) -> list[str]:
    """Return the location of each rule in a list.

    Rules on the same line, or without a line, are distinguished by number. Remembered decisions
    refer to these locations, so two rules must never have the same one.
    """
    places = [written.origin.place((*written.at, str(number))) for number in range(count)]
    return [
        f"{place} (rule {number})" if places.count(place) > 1 else place
        for number, place in enumerate(places, 1)
    ]


def declared(values: Mapping[str, Json]) -> Declared:
    """Return the sandbox options of a tool or server.

    `network` is also accepted outside of the `sandbox` table.
    """
    given = {
        "network": values.get("network"),
        **cast("Mapping[str, Json]", values.get("sandbox", {})),
    }
    return msgspec.convert(given, Declared)


def variables(values: Json) -> dict[str, str | None]:
    """Return the environment of a program. The value of a variable that the program inherits is
    None.
    """
    if not isinstance(values, Mapping):
        return {}
    return {
        name: value if isinstance(value, str) else None
        for name, value in values.items()
        if value is not False
    }


# --------------------------------------------------------------------------------------------------
# Effective settings of a tool and its questions


TOOLS = ("conversation", "tools")
QUESTIONS = "questions"


def tool_tree(merged: Tree, name: str) -> Tree:
    """Return the values of a tool. Missing values are taken from `'*'`."""
    own, star = branch(merged, *TOOLS, name), branch(merged, *TOOLS, "*")
    questions = _questions(branch(own, QUESTIONS), branch(star, QUESTIONS))
    rest = overlay(_without_questions(star), _without_questions(own))
    return {**rest, QUESTIONS: questions} if questions else rest


def effective_tree(merged: Tree) -> Tree:
    """Return all values. Missing values of each tool are taken from `'*'`."""
    tools: Tree = {name: tool_tree(merged, name) for name in branch(merged, *TOOLS)}
    return {**merged, "conversation": {**branch(merged, "conversation"), "tools": tools}}


def spellings(path: KeyPath) -> list[KeyPath]:
    """Return all keys that can set the value at `path`, the most specific first."""
    found = [path]
    if path[:2] == TOOLS and path[3:4] == (QUESTIONS,):
        found = [(*path[:4], question, *path[5:]) for question in _specific(path[4:5])]
    if path[:2] == TOOLS:
        found = [(*key[:2], tool, *key[3:]) for tool in _specific(path[2:3]) for key in found]
    return found


def _specific(name: KeyPath) -> KeyPath:
    return name if name in {(), ("*",)} else (*name, "*")


def _questions(own: Tree, star: Tree) -> Tree:
    """Merge questions.

    The tool's own table has precedence over the table of `'*'`. Within a table, an ID has
    precedence over `'*'`.
    """
    all_of_star, all_of_own = branch(star, "*"), branch(own, "*")
    names = sorted({*own, *star})
    return {
        name: overlay(all_of_star, branch(star, name), all_of_own, branch(own, name))
        for name in names
    }


def _without_questions(tool: Tree) -> Tree:
    return {name: found for name, found in tool.items() if name != QUESTIONS}


# --------------------------------------------------------------------------------------------------
# Settings of a tool, and their validation


def tools(resolving: Resolving) -> dict[str, ToolSettings]:
    """Return all tools that have a table, by name.

    Tools whose command is not approved are omitted.
    """
    names = [name for name in branch(resolving.merged, *TOOLS) if name != "*"]
    found = {name: tool(resolving, name) for name in names if _is_usable(resolving, name)}
    for settings in found.values():
        _check_parameters(resolving, settings)
    return found


def tool(resolving: Resolving, name: str) -> ToolSettings:
    """Return the settings of one tool. For `'*'`, return the settings of tools without a table."""
    tree = tool_tree(resolving.merged, name)
    values = plain(tree)
    path = (*TOOLS, name)
    parameters = cast("Mapping[str, JsonObject]", values.get("parameters", {}))
    rename = cast("str | None", values.get("rename"))
    given: dict[str, Any] = {key: values[key] for key in _COPIED_KEYS if key in values}
    return ToolSettings(
        **given,
        name=name,
        policy=tool_policy(rename or name, tree, resolving.rules(*TOOLS, name), resolving.root),
        source=_source(values),
        command=_command(resolving, values, path),
        parameters={key: _schema(definition) for key, definition in parameters.items()},
        required=tuple(
            key for key, definition in parameters.items() if definition.get("required") is True
        ),
        environment=variables(values.get("environment")),
        enable=msgspec.convert(values["enable"], Enable),
        sandbox=declared(values),
    )


_COPIED_KEYS = (
    "summary",
    "description",
    "shell",
    "protocol",
    "timeout",
    "cwd",
    "rename",
    "plugin",
    "hidden",
    "style",
)


def _is_usable(resolving: Resolving, name: str) -> bool:
    path = (*TOOLS, name)
    values = plain(branch(resolving.merged, *path))
    if name in BUILT_IN_TOOLS:
        _check_built_in(resolving, values, path)
        return True
    source = _source(values)
    if source == "builtin":
        known = ", ".join(BUILT_IN_TOOLS)
        message = (
            "no built-in tool has this name, and built-in tools cannot be renamed. Built-in tools:"
            f" {known}"
        )
        resolving.problem((*path, "source"), message)
    if source == "mcp" and "command" in values:
        resolving.problem(
            (*path, "command"),
            "a tool of an MCP server has no command; set `providers.mcp.<name>.command` for the"
            " server",
        )
    if "rename" in values:
        _check_rename(resolving, values, path)
    if "plugin" in values and ("command" in values or source != "plugin"):
        resolving.problem(
            (*path, "plugin"), "a plug-in tool has no `command` and no other `source`; remove them"
        )
    if "command" in values or "plugin" in values or source in {"builtin", "mcp"}:
        return True
    waits = resolving.is_withheld(*path, "command")
    if source == "local" and not waits:
        resolving.problem(
            (*path, "source"),
            'a local tool requires a command; set `command = ["program", "argument"]`',
        )
    if source == "plugin" and not resolving.is_withheld(*path, "plugin"):
        resolving.problem(
            (*path, "source"),
            'a plug-in tool requires its name in the package; set `plugin = "NAME"`',
        )
    return source is None and not waits


def _check_built_in(resolving: Resolving, values: Mapping[str, Json], path: KeyPath) -> None:
    if values.get("source") != "builtin":
        message = (
            f'`{path[-1]}` is a built-in tool (`source = "builtin"`); choose another name for your'
            " tool"
        )
        resolving.problem((*path, "source"), message)
    for key in ("command", "shell", "protocol", "plugin", "rename"):
        if key in values:
            resolving.problem(
                (*path, key),
                f"`{path[-1]}` is a built-in tool and does not accept this key. Choose another name"
                " for your tool",
            )


def _check_rename(resolving: Resolving, values: Mapping[str, Json], path: KeyPath) -> None:
    name = values["rename"]
    if name in BUILT_IN_TOOLS:
        resolving.problem((*path, "rename"), f"`{name}` is a built-in tool; choose another name")
    elif name in branch(resolving.merged, *TOOLS) and name != path[-1]:
        resolving.problem((*path, "rename"), f"another tool is named `{name}`; choose another name")
    elif _source(values) == "local":
        resolving.problem(
            (*path, "rename"), "a local tool is named after its table; rename the table instead"
        )


def _check_parameters(resolving: Resolving, found: ToolSettings) -> None:
    """Check the references in the arguments schema, and its size.

    The keywords were checked when the file was read.
    """
    for problem in check_schema(found.arguments_schema) if found.parameters else ():
        _, *steps = pointer_parts(problem.pointer) or ("properties",)
        resolving.problem((*TOOLS, found.name, "parameters", *steps), problem.message)


def _source(values: Mapping[str, Json]) -> ToolSource | None:
    given = values.get("source")
    if given is not None:
        return cast("ToolSource", given)
    return "local" if "command" in values else "plugin" if "plugin" in values else None


def _command(resolving: Resolving, values: Mapping[str, Json], path: KeyPath) -> tuple[str, ...]:
    command = values.get("command")
    if values.get("shell") is True and isinstance(command, str):
        return (command,)
    return resolving.command(command, (*path, "command"))


def _schema(definition: JsonObject) -> JsonObject:
    return {
        key: value
        for key, value in definition.items()
        if key != "required" or not isinstance(value, bool)
    }


# --------------------------------------------------------------------------------------------------
# People and groups


def directory(resolving: Resolving) -> Directory:
    """Return the people and groups. Inconsistencies are added to `resolving.problems`."""
    merged = resolving.merged
    people = {
        name: _person(plain(branch(merged, "people", name))) for name in branch(merged, "people")
    }
    _check_identities(resolving, people)
    members = {
        name: plain(branch(merged, "groups", name)).get("members", ())
        for name in branch(merged, "groups")
    }
    groups = _Groups(resolving, cast("Mapping[str, Sequence[str]]", members), people)
    found = Directory(people, {name: groups.people_of(name) for name in members})
    _check_names(resolving, found)
    return found


def _check_identities(resolving: Resolving, people: Mapping[str, Person]) -> None:
    """Report names that conflict.

    Two people or groups must not have the same canonical name, and two people must not have the
    same login.
    """
    names: dict[str, KeyPath] = {}
    for path in (
        *(("people", name) for name in people),
        *(("groups", name) for name in branch(resolving.merged, "groups")),
    ):
        key = _canonical(resolving, path, path[1])
        other = names.setdefault(key, path) if key else path
        if other != path and (path[1] != other[1] or path[0] == other[0]):
            resolving.problem(
                path, f"the same name as {resolving.named(other)}; rename one of them"
            )
    owners = {key: path[1] for key, path in names.items() if path[0] == "people"}
    first: dict[str, str] = {}
    for name, person in people.items():
        path = ("people", name, "logins")
        for login in person.logins:
            key = _canonical(resolving, path, login)
            if not key:
                continue
            if owners.get(key, name) != name:
                resolving.problem(
                    path,
                    f"`{login}` is the name of another person, which is always a login of that"
                    " person",
                )
            elif (other := first.setdefault(key, name)) != name:
                where = resolving.named(("people", other, "logins"))
                resolving.problem(
                    path, f"`{login}` is also in {where}; a login can belong to one person only"
                )


def _canonical(resolving: Resolving, path: KeyPath, name: str) -> str:
    """Return the canonical form of a name.

    If the name has no canonical form, report a problem and return an empty string.
    """
    try:
        return canonical_name(name)
    except ValueError as error:
        resolving.problem(path, str(error))
        return ""


def _person(values: Mapping[str, Json]) -> Person:
    notify = values.get("notify", ())
    return msgspec.convert(
        {**values, "notify": [notify] if isinstance(notify, str) else notify}, Person
    )


class _Groups(Struct, frozen=True):
    """Groups as configured, to be expanded to people."""

    resolving: Resolving
    members: Mapping[str, Sequence[str]]
    people: Mapping[str, Person]

    def people_of(self, group: str) -> tuple[str, ...]:
        """Return all people in a group and its nested groups. Report unknown names and cycles."""
        path = ("groups", group, "members")
        if group in self.people:  # `_check_identities` reports different spellings of a name
            self.resolving.problem(
                path, f"`{group}` is also the name of a person; rename the group"
            )
        if not self.members[group]:
            self.resolving.problem(("groups", group), "the group is empty; set its `members`")
        for name in self.members[group]:
            if not self._group(name) and not self._person(name):
                near = did_you_mean(name, (*self.people, *self.members))
                self.resolving.problem(path, f"no person or group is named `{name}`.{near}")
        return tuple(dict.fromkeys(self._inside(group, (group,))))

    def _group(self, name: str) -> str:
        """Return the configured group with this name, or an empty string if there is none."""
        return (
            name
            if name in self.members
            else next((group for group in self.members if is_same_name(group, name)), "")
        )

    def _person(self, name: str) -> str:
        """Return the configured person with this name, or an empty string if there is none."""
        return (
            name
            if name in self.people
            else next((person for person in self.people if is_same_name(person, name)), "")
        )

    def _inside(self, group: str, around: tuple[str, ...]) -> Iterator[str]:
        for name in self.members[group]:
            inner = self._group(name)
            if inner and inner == around[0]:
                chain = " → ".join((*around, inner))
                self.resolving.problem(
                    ("groups", inner, "members"),
                    f"the group contains itself ({chain}); remove one of these members",
                )
            elif inner and inner not in around:
                yield from self._inside(inner, (*around, inner))
            elif person := self._person(name):
                yield person


def _check_names(resolving: Resolving, known: Directory) -> None:
    """Report unknown people and groups in rules and questions.

    Also report questions that require more approvals than there are people who may answer.
    """
    for path, people in _named_people(resolving):
        unknown = [name for name in dict.fromkeys(people.named) if not known.knows(name)]
        for name in unknown:
            near = did_you_mean(name, (*known.people, *known.groups))
            resolving.problem(path, f"no person or group is named `{name}`.{near}")
        eligible = len(known.filled_in(people).people_of(people.named))
        if people.only and not unknown and eligible < people.approvals:
            resolving.problem(
                path, f"{people.approvals} approvals are required, but only {eligible} may answer"
            )


def _named_people(resolving: Resolving) -> Iterator[tuple[KeyPath, People]]:
    """Yield the people settings of rules and questions, with their keys."""
    for path, found in entries(resolving.merged):
        if path[-1:] == ("people",) and QUESTIONS in path:
            yield path, read_people(found.value)
        elif path[-1:] == ("rules",):
            rules = read_run_rules(cast("Sequence[object]", found.value))
            yield from ((path, rule.people) for rule in rules if rule.people is not None)


_T = TypeVar("_T")
_LLM, _MCP = ("providers", "llm"), ("providers", "mcp")
_KINDS = get_args(Family)


def resolve(resolving: Resolving, toggles: tuple[Toggle, ...] = ()) -> Settings:
    """Return the settings. Inconsistencies are added to `resolving.problems`."""
    notify = entry(resolving.merged, "notify", "command")
    return Settings(
        assistant=_table(resolving, AssistantSettings, "assistant"),
        inquiry=plain(branch(resolving.merged, "conversation", "inquiry", "assistant")),
        tools=tools(resolving),
        any_tool=tool(resolving, "*"),
        toggles=toggles,
        agents={agent: _agent(resolving, agent) for agent in branch(resolving.merged, "agents")},
        llm=_providers(resolving),
        mcp=mcp_servers(resolving),
        limits=_table(resolving, Limits, "limits"),
        prompt=_table(resolving, ScreenSettings, "prompt"),
        display=_table(resolving, DisplaySettings, "display"),
        user=_table(resolving, UserSettings, "user"),
        web=_table(resolving, WebSettings, "web"),
        notify=resolving.command(notify.value, ("notify", "command")) if notify else (),
        notifications=_table(resolving, NotificationSettings, "notify"),
        directory=directory(resolving),
        channels=tuple(_channel(resolving, name) for name in branch(resolving.merged, "channels")),
    )


def _channel(resolving: Resolving, name: str) -> ChannelTable:
    values = plain(branch(resolving.merged, "channels", name))
    known = {key: values[key] for key in ("asks", "people", "rooms") if key in values}
    options = {key: value for key, value in values.items() if key not in {"kind", *known}}
    return msgspec.convert(
        {"name": name, "kind": str(values.get("kind", "")), "options": options, **known},
        ChannelTable,
    )


def _table(resolving: Resolving, type: type[_T], *path: str) -> _T:
    return msgspec.convert(plain(branch(resolving.merged, *path)), type)


def _providers(resolving: Resolving) -> dict[str, LlmProvider]:
    found = {name: _provider(resolving, (*_LLM, name)) for name in branch(resolving.merged, *_LLM)}
    return {name: provider for name, provider in found.items() if provider is not None}


def _provider(resolving: Resolving, path: KeyPath) -> LlmProvider | None:
    values = plain(branch(resolving.merged, *path))
    kind = values.get("kind", path[-1] if path[-1] in _KINDS else None)
    if kind is None:
        resolving.problem(path, f"`kind` is missing: {one_of(_KINDS)}")
        return None
    if kind == "openai-compatible" and "base_url" not in values:
        if not resolving.is_withheld(*path, "base_url"):
            resolving.problem(
                path,
                "an OpenAI-compatible server requires a URL: `base_url ="
                ' "http://127.0.0.1:8080/v1"`',
            )
        return None
    return msgspec.convert({**values, "kind": kind}, LlmProvider)


def _agent(resolving: Resolving, agent: str) -> dict[str, tuple[RunRules, ...]]:
    path = ("agents", agent, "tools")
    return {tool: resolving.rules(*path, tool) for tool in branch(resolving.merged, *path)}


_SERVER_KEYS = ("command", "url", "environment")
"""Keys that determine the program or the address of a server."""


def mcp_servers(resolving: Resolving) -> dict[str, McpServerSettings]:
    """Return the MCP servers by name. Errors are added to `resolving.problems`."""
    found = {name: _server(resolving, (*_MCP, name)) for name in branch(resolving.merged, *_MCP)}
    return {name: server for name, server in found.items() if server is not None}


def _server(resolving: Resolving, path: KeyPath) -> McpServerSettings | None:
    values = plain(branch(resolving.merged, *path))
    if resolving.is_withheld(*path) and not {"command", "url"} & values.keys():
        return None
    if ("command" in values) == ("url" in values):
        resolving.problem(
            path,
            "an MCP server has either a `command` (midturn starts it) or a `url` (it is already"
            " running)",
        )
        return None
    table = branch(resolving.merged, *path)
    files = scripts_of(table, resolving.root) if "command" in values else ()
    return McpServerSettings(
        definition=_fingerprint(table, _SERVER_KEYS, files),
        is_local=bool(files) or _is_local(table, _SERVER_KEYS),
        command=resolving.command(values.get("command"), (*path, "command")),
        url=cast("str | None", values.get("url")),
        headers=cast("Mapping[str, str]", values.get("headers", {})),
        environment=variables(values.get("environment")),
        sandbox=declared(values),
        sampling=values.get("sampling") is True,
        protocol=cast("McpProtocol", values.get("protocol", "auto")),
    )
