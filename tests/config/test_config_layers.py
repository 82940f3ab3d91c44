"""Each configuration layer overrides the lower layers, for every key."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from midturn.config.assign import Assignment, nested
from midturn.config.edit import explain, get
from midturn.config.keys import KEYS, Leaf, Node
from midturn.config.tree import KeyPath, dotted
from midturn.question.json_value import Json
from midturn.question.text import BUILT_IN_TOOLS
from support.workspaces import Workspace

LAYERS = ("user", "workspace", "environment", "recorded --cfg", "recorded flags", "--cfg", "flags")
_NAMES = {
    "a tool's name": "fs_read_file",
    "a provider's name": "openai",
    "a variable": "variable",
    "a keyword of JSON Schema": "default",
    "the absolute path of a directory": "/a",
}


def leaves(node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Leaf]]:
    """Yield every key, with an example name for each free part."""
    if isinstance(node, Leaf):
        yield path, node
        return
    for name, child in node.keys.items():
        yield from leaves(child, (*path, name))
    if node.names is not None:
        name = _NAMES.get(node.names.what, "some")
        yield from leaves(node.names.node, (*path, name))
        if node.names.star is not None:
            yield from leaves(node.names.star, (*path, "*"))


def values(leaf: Leaf) -> list[Json]:
    """Return two valid values for the key."""
    if leaf.allowed:
        return [leaf.allowed[0], leaf.allowed[-1]]
    kinds: dict[str, list[Json]] = {
        "boolean": [True, False],
        "integer": [3, 4],
        "number": [1.5, 2.5],
        "seconds": [5.0, 6.0],
        "argv": [["a", "b"], ["c"]],
        "paths": [["~/a", "b"], []],
        "cache": ["off", "5m"],
        "json_type": ["string", ["string", "null"]],
        "required": [True, False],
        "json": [{"a": [1]}, "text"],
        "people": [{"approvals": 2}, {"approvals": 3}],
        "names": [["a"], ["b", "c"]],
        "rules": [[{"when": {"cmd": "git *"}, "run": "ask"}], [{"run": "skip"}]],
    }
    return kinds.get(leaf.kind, ["one", "two"])


# combinations are tested elsewhere
_STRUCTURAL = {"source", "command", "shell", "protocol", "rename", "plugin", "kind", "url"}
_ELSEWHERE = {
    ("providers", "mcp"),
    ("conversation", "store"),
    ("groups", "some"),
    ("projects", "/a"),
}
KEYS_AND_LEAVES = [
    (path, leaf)
    for path, leaf in leaves(KEYS)
    if path[-1] not in _STRUCTURAL and path[:2] not in _ELSEWHERE
]


def toml(path: KeyPath, value: Json) -> str:
    return f"{dotted(path)} = {_toml(value)}\n"


def _toml(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


@hypothesis_settings(deadline=None)
@given(st.data())
def test_the_highest_layer_that_sets_a_key_wins_and_is_named(data: st.DataObject) -> None:
    path, leaf = data.draw(st.sampled_from(KEYS_AND_LEAVES))
    usable = [layer for layer in LAYERS if layer != "environment" or _has_assignment_form(path)]
    used = [layer for layer in usable if data.draw(st.booleans(), label=layer)] or ["user"]
    chosen = {layer: data.draw(st.sampled_from(values(leaf)), label=layer) for layer in used}
    with tempfile.TemporaryDirectory() as directory:
        workspace = Workspace(Path(directory))
        loaded = _load(workspace, path, chosen)

        explanation = next(
            found for found in explain(loaded, dotted(path)) if found.key == dotted(path)
        )
        assert explanation.settings[0].layer == used[-1]
        assert [
            setting.layer for setting in explanation.settings if setting.layer != "built-in"
        ] == used[::-1]
        assert get(loaded, dotted(path)) == chosen[used[-1]]


def _has_assignment_form(path: KeyPath) -> bool:
    return all(name == name.lower() and "__" not in name for name in path)


def _load(workspace: Workspace, path: KeyPath, chosen: dict[str, Json]):  # noqa: ANN202 (the type is `load`'s)
    if "user" in chosen:
        workspace.user(toml(path, chosen["user"]))
    if "workspace" in chosen:
        workspace.workspace(toml(path, chosen["workspace"]))
        workspace.trust()
    recorded = workspace.load(
        *(
            [f"{dotted(path)}={_toml(chosen['recorded --cfg'])}"]
            if "recorded --cfg" in chosen
            else []
        ),
        flags=(
            [Assignment(dotted(path), chosen["recorded flags"], "--old")]
            if "recorded flags" in chosen
            else []
        ),
    ).given.to_record()
    variable = "MIDTURN_CFG_" + "__".join(path).upper()
    return workspace.load(
        *([f"{dotted(path)}={_toml(chosen['--cfg'])}"] if "--cfg" in chosen else []),
        environment={variable: _toml(chosen["environment"])} if "environment" in chosen else {},
        flags=[Assignment(dotted(path), chosen["flags"], "--new")] if "flags" in chosen else [],
        recorded=[recorded] if recorded else [],
    )


@pytest.mark.parametrize(
    ("path", "leaf"), KEYS_AND_LEAVES, ids=[dotted(path) for path, _ in KEYS_AND_LEAVES]
)
def test_every_key_can_be_set(workspace: Workspace, path: KeyPath, leaf: Leaf) -> None:
    """Loading accepts and keeps every entry of the table of keys."""
    for value in values(leaf):
        loaded = workspace.load(flags=[Assignment(dotted(path), value, "--flag")])

        assert nested(path, get(loaded, dotted(path))) == nested(path, value)


def test_overriding_one_field_of_a_built_in_tool_keeps_the_rest(workspace: Workspace) -> None:
    before = workspace.load().settings.tools["ask_user"]
    workspace.user("conversation.tools.ask_user.questions.answer.prompt_label = 'From the file'")

    after = workspace.load(
        "conversation.tools.ask_user.questions.answer.prompt_label=From the flag"
    ).settings.tools["ask_user"]

    assert after.policy.question("answer").prompt_label == "From the flag"
    assert after.policy.question("other").prompt_label == "Assistant"
    assert (after.source, after.enable, after.hidden, after.policy.run) == (
        before.source,
        before.enable,
        True,
        "unattended",
    )
    assert (
        workspace.load().settings.tools["ask_user"].policy.question("answer").prompt_label
        == "From the file"
    )


def test_turning_a_tool_off_in_a_table_keeps_its_policy_and_a_plain_false_resets_it(
    workspace: Workspace,
) -> None:
    kept = (
        workspace.load("conversation.tools.ask_user.enable={state=false}")
        .settings.tools["ask_user"]
        .enable
    )
    reset = (
        workspace.load("conversation.tools.ask_user.enable=false").settings.tools["ask_user"].enable
    )

    assert (kept.state, kept.allow_toggle) == (False, "if_named")
    assert (reset.state, reset.allow_toggle) == (False, "any")


def test_old_spelling_of_any_is_read(workspace: Workspace) -> None:
    enable = (
        workspace.load("conversation.tools.ask_user.enable.allow_toggle=always")
        .settings.tools["ask_user"]
        .enable
    )

    assert enable.allow_toggle == "any"


def test_shorthand_and_table_merge_field_by_field(workspace: Workspace) -> None:
    workspace.user("conversation.tools.t.detached = 'deny'")

    detached = (
        workspace.load("conversation.tools.t.detached.tool=defer")
        .settings.tools["t"]
        .policy.detached
    )

    assert (detached.run, detached.deliver, detached.tool) == ("deny", "deny", "defer")


def test_model_parameters_and_tool_parameters_merge_by_name(workspace: Workspace) -> None:
    workspace.user(
        "[assistant.model]\nid = 'a/b'\nparameters = { temperature = 0.2, top_p = 1"
        " }\n[conversation.tools.t]\ncommand = 'x'\nparameters.env = { type = 'string', enum ="
        " ['a'], required = true }\n",
    )

    settings = workspace.load(
        "assistant.model.parameters.temperature=0.9",
        'conversation.tools.t.parameters.env.enum=["b"]',
    ).settings

    assert settings.assistant.model.parameters == {"temperature": 0.9, "top_p": 1}
    assert settings.tools["t"].parameters == {"env": {"type": "string", "enum": ["b"]}}
    assert settings.tools["t"].required == ("env",)


def test_tool_environment_by_names_or_values(workspace: Workspace) -> None:
    workspace.user("conversation.tools.t = { command = 'x', environment = ['TOKEN', 'HOME'] }")

    tool = workspace.load(
        "conversation.tools.t.environment={MODE='fast', HOME=false}"
    ).settings.tools["t"]

    assert tool.environment == {"TOKEN": None, "MODE": "fast"}


def test_a_command_is_split_like_a_shell_would_unless_it_is_for_a_shell(
    workspace: Workspace,
) -> None:
    workspace.user("conversation.tools.t.command = \"git log '--format=%h %s'\"")

    assert workspace.load().settings.tools["t"].command == ("git", "log", "--format=%h %s")
    assert workspace.load("conversation.tools.t.shell=true").settings.tools["t"].command == (
        "git log '--format=%h %s'",
    )


def test_tool_without_an_entry_uses_the_star(workspace: Workspace) -> None:
    workspace.user("[conversation.tools.'*']\nrun = 'edit'\nquestions.'*'.target = 'assistant'\n")

    tool = workspace.load().settings.tool("everything_echo")

    assert tool.name == "everything_echo"
    assert tool.policy.source.name == "everything_echo"
    assert tool.policy.run == "edit"
    assert tool.policy.question("any").target.kind == "assistant"


def test_every_built_in_tool_has_its_defaults(workspace: Workspace) -> None:
    tools = workspace.load().settings.tools

    assert [name for name in BUILT_IN_TOOLS if tools[name].source != "builtin"] == []
