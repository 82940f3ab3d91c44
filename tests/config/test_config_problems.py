"""All configuration errors are reported together, each with its place, its key and the allowed
values.
"""

from __future__ import annotations

import pytest

from midturn.errors import ConfigError
from support.workspaces import Workspace


def problems(workspace: Workspace, *cfg: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        workspace.load(*cfg)
    return str(error.value).splitlines()


def test_an_unknown_key_is_named_with_file_and_line_and_the_nearest_known_key(
    workspace: Workspace,
) -> None:
    workspace.workspace(
        '[conversation.tools.deploy]\nsource = "local"\ncommand = ["x"]\nprotocl = "outcome"\n'
    )

    assert problems(workspace) == [
        (
            ".midturn/config.toml:4: unknown key `conversation.tools.deploy.protocl`. Did you mean"
            " `protocol`?"
        ),
    ]


def test_misplaced_key_suggests_its_place(workspace: Workspace) -> None:
    workspace.workspace("temperature = 1\nmax_retries = 3\n")

    first, second = problems(workspace)
    assert first.startswith(
        ".midturn/config.toml:1: unknown key `temperature`. Known keys: `assistant`"
    )
    assert (
        second == ".midturn/config.toml:2: unknown key `max_retries`. Did you mean"
        " `assistant.request.max_retries`?"
    )


def test_all_problems_of_all_layers_are_reported_together(workspace: Workspace) -> None:
    workspace.user("[assistant]\nname = 3\n[assistant.request]\nmax_retries = -1\n")
    workspace.workspace("[limits]\ncycles = 0\nseconds = true\n")
    workspace.extra("10.toml", "broken = \n")

    found = problems(workspace, "prompt.mode=fancy", "missing.toml")

    assert [line.rpartition("config")[2].split(" ", 1)[0] for line in found[:4]] == [
        ".toml:2:",
        ".toml:4:",
        ".toml:2:",
        ".toml:3:",
    ]
    assert "`assistant.name`: expected a string, not 3" in found[0]
    assert "expected a whole number of at least 0 and at most 100, not -1" in found[1]
    assert found[4].startswith(".midturn/config.d/10.toml:1: not valid TOML: Invalid value")
    assert "--cfg missing.toml: no such file; to set a single value, use KEY=VALUE" in found
    assert '--cfg: `prompt.mode`: expected "auto", "rich" or "plain", not "fancy"' in found
    assert len(found) == 7


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "assistant.model = 'x'",
            "`assistant.model`: expected a table; write `assistant.model.id = …`",
        ),
        (
            "assistant.model.id = ''",
            '`assistant.model.id`: expected a model such as "anthropic/claude-haiku-4-5", not ""',
        ),
        (
            "assistant.request.cache = '5'",
            (
                '`assistant.request.cache`: expected "off", "short", "long", or a duration such as'
                ' "5m", not "5"'
            ),
        ),
        ("assistant.name.x = 1", "`assistant.name`: expected a string, not a table"),
        (
            'assistant.name = "a\\u0000"',
            (
                "`assistant.name`: expected a string of UTF-8 text without NUL characters, not"
                ' "a\\u0000"'
            ),
        ),
        (
            "conversation.tools.t.detached = 'never'",
            (
                '`conversation.tools.t.detached`: expected "defer", "auto", "defaults" or "deny" or'
                ' a table, not "never"'
            ),
        ),
        (
            "conversation.tools.t.questions.q.target = 'llm'",
            '"user", "assistant" or "assistant_with_escalation" or a table, not "llm"',
        ),
        ("conversation.tools.t.questions.q.target.modl = 1", "Did you mean `model`?"),
        (
            "conversation.tools.t.questions.q.answer = 2024-01-01",
            "expected JSON (write dates and times as strings)",
        ),
        ("conversation.tools.t.questions.q.answer = [nan]", "expected a number, not [NaN]"),
        (
            "conversation.tools.'a b'.run = 'ask'",
            "`conversation.tools.'a b'`: 'a b' is not valid as a tool's name",
        ),
        (
            "conversation.tools.t.questions.__x.answer = 1",
            "`conversation.tools.t.questions.__x`: __x is not valid as a question ID",
        ),
        (
            "conversation.tools.t.timeout = 0",
            'expected seconds (a number above 0), or a duration such as "90s" or "2m", not 0',
        ),
        (
            "conversation.tools.t.command = []",
            'expected a command: a list such as ["git", "status"], or a string, not []',
        ),
        ("conversation.tools.t.environment = ['A=B']", "A=B' is not valid as a variable"),
        (
            "conversation.tools.t.parameters.p.type = 'any'",
            '"array", "object" or "null", not "any"',
        ),
        ("conversation.tools.'*'.command = 'x'", "unknown key `conversation.tools.'*'.command`"),
        (
            "providers.mcp.m.headers.X-Key = 5",
            "`providers.mcp.m.headers.X-Key`: expected a string, not that",
        ),
        ("notify.command = ''", "`notify.command`: expected a command"),
        (
            "limits.json_depth = 1.5",
            "`limits.json_depth`: expected a whole number of at least 1, not 1.5",
        ),
    ],
)
def test_a_wrong_value_says_what_is_allowed(workspace: Workspace, line: str, message: str) -> None:
    workspace.workspace(f"\n{line}\n")

    (found,) = problems(workspace)
    assert found.startswith(".midturn/config.toml:2: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "source = 'local'\nsummary = 'x'",
            "`conversation.tools.t.source`: a local tool requires a command",
        ),
        (
            "source = 'builtin'",
            (
                "`conversation.tools.t.source`: no built-in tool has this name, and built-in tools"
                " cannot be renamed."
            ),
        ),
        ("source = 'builtin.ask_user'", 'expected "builtin", "local", "mcp" or "plugin"'),
        (
            "source = 'plugin'",
            "`conversation.tools.t.source`: a plug-in tool requires its name in the package",
        ),
        (
            "plugin = 'x'\ncommand = 'x'",
            "`conversation.tools.t.plugin`: a plug-in tool has no `command` and no other `source`",
        ),
        (
            "source = 'mcp'\ncommand = ['x']",
            "`conversation.tools.t.command`: a tool of an MCP server has no command",
        ),
        (
            "command = 'a \"b'",
            (
                "`conversation.tools.t.command`: cannot be split into words (No closing quotation);"
                " use a list instead"
            ),
        ),
        (
            "source = 'mcp'\nrename = 'ask_user'",
            "`conversation.tools.t.rename`: `ask_user` is a built-in tool; choose another name",
        ),
        (
            "command = 'x'\nrename = 'y'",
            (
                "`conversation.tools.t.rename`: a local tool is named after its table; rename the"
                " table instead"
            ),
        ),
    ],
)
def test_inconsistent_entry_is_an_error_with_its_line(
    workspace: Workspace, text: str, message: str
) -> None:
    workspace.user(f"[conversation.tools.t]\n{text}\n")

    (found,) = problems(workspace)
    assert "config.toml:" in found
    assert message in found


def test_file_with_many_errors_is_reported_briefly(workspace: Workspace) -> None:
    workspace.workspace(
        "".join(f"key{number} = 1\n" for number in range(20_000)) + "x" * 100_000 + " = 1\n"
    )

    found = problems(workspace)

    assert found[-1] == ".midturn/config.toml: further problems are not listed"
    assert len(found) == 51
    workspace.workspace("x" * 100_000 + " = 1\n")
    assert len(problems(workspace)[0]) == 1000


def test_wrong_value_is_not_also_reported_as_missing(workspace: Workspace) -> None:
    workspace.user("[conversation.tools.t]\nsource = 'local'\ncommand = 3\n")

    (found,) = problems(workspace)
    assert "expected a command" in found


@pytest.mark.parametrize("name", ["ask_user", "fs_read_file", "describe_tools"])
def test_nothing_replaces_a_built_in_tool(workspace: Workspace, name: str) -> None:
    """Otherwise the recorded source of the tool would be wrong."""
    workspace.user(f"[conversation.tools.{name}]\nsource = 'local'\ncommand = ['evil']\n")

    found = problems(workspace)
    assert f"`conversation.tools.{name}.source`: `{name}` is a built-in tool" in found[0]
    assert f"`conversation.tools.{name}.command`: `{name}` is a built-in tool" in found[1]


def test_providers_report_missing_parts(workspace: Workspace) -> None:
    workspace.user(
        "[providers.llm.mine]\nbase_url = 'http://h'\n[providers.llm.local]\nkind ="
        " 'openai-compatible'\n[providers.mcp.none]\nsampling = true\n[providers.mcp.both]\ncommand"
        " = 'x'\nurl = 'http://h'\n",
    )

    mine, local, none, both = problems(workspace)
    assert 'config.toml:2: `providers.llm.mine`: `kind` is missing: "anthropic"' in mine
    assert "`providers.llm.local`: an OpenAI-compatible server requires a URL" in local
    assert "`providers.mcp.none`: an MCP server has either a `command`" in none
    assert "`providers.mcp.both`: an MCP server has either a `command`" in both


PARAMETER = "conversation.tools.t.parameters.p"


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("summary = 'Where.'", "summary`: unknown keyword `summary`. Did you mean `description`?"),
        ("requierd = true", "requierd`: unknown keyword `requierd`. Did you mean `required`?"),
        (
            "desription = 'Where.'",
            "desription`: unknown keyword `desription`. Did you mean `description`?",
        ),
        ("choices = ['a']", "choices`: unknown keyword `choices`. Did you mean `enum`?"),
        (
            "patternProperties = {}",
            (
                "patternProperties`: `patternProperties` is not allowed: list the properties under"
                " `properties`."
            ),
        ),
        ("xyz = 1", "xyz`: unknown keyword `xyz`. Remove it."),
        ("enum = []", "enum`: `enum` must be an array of 1 to 200 values."),
        ("minLength = 'two'", "minLength`: `minLength` must be a whole number, 0 or more."),
        (
            "pattern = '('",
            (
                "pattern`: `pattern` is not a regular expression: missing ), unterminated"
                " subpattern, at character 1."
            ),
        ),
        ("items = { typ = 'string' }", "items.typ`: unknown keyword `typ`. Did you mean `type`?"),
        (
            "anyOf = [{ type = 'string' }, { help = 'x' }]",
            "anyOf.1.help`: unknown keyword `help`. Did you mean `description`?",
        ),
        (
            "properties = { 'a/b' = { required = true } }",
            "properties.'a/b'.required`: `required` must be an array of different property names.",
        ),
        ("required = 'yes'", 'required`: expected true or false, not "yes"'),
        ("description = 3", "description`: expected a string, not 3"),
    ],
)
def test_a_wrong_keyword_of_a_parameter_is_named_with_its_line_and_the_nearest_keyword(
    workspace: Workspace, keyword: str, message: str
) -> None:
    workspace.workspace(f'[conversation.tools.t]\ncommand = ["x"]\n[{PARAMETER}]\n{keyword}\n')

    assert problems(workspace) == [f".midturn/config.toml:4: `{PARAMETER}.{message}"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("str", "string"),
        ("strng", "string"),
        ("int", "integer"),
        ("float", "number"),
        ("bool", "boolean"),
        ("list", "array"),
        ("dict", "object"),
    ],
)
def test_an_unknown_type_of_a_parameter_is_reported_with_the_type_that_is_meant(
    workspace: Workspace, word: str, meant: str
) -> None:
    (problem,) = problems(workspace, f"{PARAMETER}.type={word}")

    assert problem.startswith(f"--cfg: `{PARAMETER}.type`: expected ")
    assert problem.endswith(f'not "{word}". Did you mean `{meant}`?')


def test_an_unknown_type_inside_a_parameter_is_reported_with_the_type_that_is_meant(
    workspace: Workspace,
) -> None:
    (problem,) = problems(workspace, f'{PARAMETER}.items={{ type = "int" }}')

    assert problem.startswith(f"--cfg: `{PARAMETER}.items.type`: `type` must be one of string, ")
    assert problem.endswith("Did you mean `integer`?")


def test_the_schema_of_a_commands_arguments_is_checked_as_a_whole(workspace: Workspace) -> None:
    workspace.user(
        '[conversation.tools.t]\ncommand = ["x"]\n[conversation.tools.t.parameters]\np.type ='
        ' "array"\np.items = { "$ref" = "#/nowhere" }\n'
    )

    (problem,) = problems(workspace)

    assert problem.endswith(
        "config.toml:5: `conversation.tools.t.parameters.p.items.'$ref'`: "
        "the reference does not point to a schema. Define it under `$defs`."
    )


def test_a_parameter_may_use_every_keyword_of_the_subset(workspace: Workspace) -> None:
    workspace.user(
        '[conversation.tools.t]\ncommand = ["x"]\n[conversation.tools.t.parameters.p]\ntype ='
        ' "object"\nrequired = ["a"]\nproperties = { a = { type = ["string", "null"], description ='
        ' "A." } }\nadditionalProperties = false\n'
    )

    assert workspace.load().settings.tools["t"].parameters["p"]["required"] == ["a"]
