"""All configuration keys: their type, allowed values, and effect.

Validation, suggestions, trust and `config explain` all use this table. `trust.RULES` lists the keys
that a workspace may set without approval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from midturn.config.settings import AllowToggle, McpProtocol, ToolSource, ToolStyle
from midturn.exchange import Family
from midturn.question.answer_schema import keyword_refusal
from midturn.question.json_value import Json, Limits
from midturn.question.people import LONGEST, SHORTEST
from midturn.question.text import NAME, PERSON, QUESTION_ID, OutputProtocol
from midturn.routing.policy import DetachedPolicy, ResultPolicy, RunPolicy
from midturn.terminal.prompts.settings import Mode

# --------------------------------------------------------------------------------------------------
# Nodes of the table


ValueKind: TypeAlias = Literal[
    "string",
    "boolean",
    "integer",
    "number",
    "seconds",
    "argv",
    "model",
    "cache",
    "variable",
    "paths",
    "json_type",
    "required",
    "json",
    "keyword",
    "rules",
    "people",
    "names",
]


class Leaf(Struct, frozen=True, kw_only=True):
    """A single value.

    Args:
        kind: Type of the value.
        allowed: Allowed values, if there is a fixed list.
        aliases: Alternative spellings of allowed values.
        minimum: Lower bound of a number.
        maximum: Upper bound of a number.
        why: Effect of the key (`runs a program`), shown when the user is asked to approve a
            workspace.
        private: Whether the value is hidden in output.
        help: Description of the key.
    """

    kind: ValueKind = "string"
    allowed: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    minimum: float | None = None
    maximum: float | None = None
    why: str = ""
    private: bool = False
    help: str = ""


class NamedKeys(Struct, frozen=True):
    """User-defined names in a table.

    Names that match `pattern` have the node `node`. If `'*'` is allowed, it has the node `star`.
    `refusal` returns why a matching name is not allowed, or None.
    """

    node: Node
    what: str
    pattern: str
    star: Node | None = None
    refusal: Callable[[str], str | None] | None = None


class Shorthand(Struct, frozen=True):
    """A plain value that can be written instead of a table, and the fields that the value sets."""

    leaf: Leaf
    expand: Callable[[Json], Mapping[str, Json]]


class Branch(Struct, frozen=True, kw_only=True):
    """A table.

    `implied` fields are set if the table is present. `why` is the default for the keys in the
    table.
    """

    keys: Mapping[str, Node] = {}
    names: NamedKeys | None = None
    shorthand: Shorthand | None = None
    implied: Mapping[str, Json] = {}
    star_covers_names: bool = False
    why: str = ""

    def child(self, name: str) -> Node:
        """Return the node of a valid key.

        Below a value without a fixed format, every key is allowed.
        """
        found = self.keys.get(name)
        if found is None and self.names is not None:
            found = (
                self.names.star if name == "*" and self.names.star is not None else self.names.node
            )
        return found if found is not None else _FREE


Node: TypeAlias = Leaf | Branch

_FREE = Leaf(kind="json")


VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"

_RUNS = "runs a program"
_INSTRUCTS = "gives instructions to a model"


def _detached(value: Json) -> dict[str, Json]:
    return dict.fromkeys(("run", "deliver", "tool"), value)


def _enable(value: Json) -> dict[str, Json]:
    return {"state": value, "allow_toggle": "any"}


def _sandbox(value: Json) -> dict[str, Json]:
    return {"enable": value}


def _target(value: Json) -> dict[str, Json]:
    """Expand the shorthand of `target`: `user`, `assistant` or `assistant_with_escalation`.

    The kind of target is stored under `''`, a key that cannot be written in a file, because a
    table in a file always configures a model.
    """
    return (
        {"": "user"}
        if value == "user"
        else {"": "assistant", "escalation": value == "assistant_with_escalation"}
    )


def _passed_on(value: Json) -> dict[str, Json]:
    return {str(name): True for name in (value if isinstance(value, list | tuple) else (value,))}


def _within(help: str) -> Leaf:
    return Leaf(
        kind="seconds",
        minimum=SHORTEST,
        maximum=LONGEST,
        why="limits the time to answer",
        help=help,
    )


MODEL = Branch(
    keys={
        "id": Leaf(
            kind="model",
            why="selects the model, which reads the conversation",
            help=(
                "model: `PROVIDER/NAME`, `scripted:FILE`, or `inherit` for the model of the main"
                " assistant"
            ),
        ),
        "parameters": Branch(
            why="changes the parameters of every request",
            names=NamedKeys(
                Leaf(
                    kind="json", help="parameter sent to the model unchanged, such as `temperature`"
                ),
                "a model parameter",
                ".+",
            ),
        ),
    }
)
REQUEST = Branch(
    keys={
        "cache": Leaf(
            kind="cache", help="prompt cache: `off`, `short`, `long`, or a duration such as `5m`"
        ),
        "max_retries": Leaf(
            kind="integer", minimum=0, maximum=100, help="number of retries of a failed request"
        ),
    }
)
SIDE_ASSISTANT: dict[str, Node] = {
    "system_prompt": Leaf(why=_INSTRUCTS, help="the system prompt"),
    "model": MODEL,
    "request": REQUEST,
}
ASSISTANT = Branch(
    keys={
        **SIDE_ASSISTANT,
        "name": Leaf(help="name of the assistant"),
        "tool_choice": Leaf(help="`auto`, `none`, `required`, or the name of a tool"),
    }
)
TARGET = Branch(
    keys={
        **SIDE_ASSISTANT,
        "escalation": Leaf(kind="boolean", help="if the model rejects the call, ask the user"),
    },
    shorthand=Shorthand(
        Leaf(allowed=("user", "assistant", "assistant_with_escalation"), help="who answers"),
        _target,
    ),
    implied={"": "assistant"},
    why="sets who answers",
)
QUESTION = Branch(
    keys={
        "target": TARGET,
        "answer": Leaf(
            kind="json", why="answers for you", help="fixed answer; the question is not asked"
        ),
        "exclusive": Leaf(
            kind="boolean",
            why="sets whether only a human may answer",
            help="only a human may answer",
        ),
        "prompt_label": Leaf(help="label shown next to the name of the tool"),
        "deadline": _within("maximum time for an answer; afterwards the question stays unanswered"),
        "people": Leaf(
            kind="people",
            why="sets who may answer",
            help="who may answer: `ask`, `only`, `approvals`, `remind_after`, `escalate`",
        ),
    }
)
DETACHED_LEAF = Leaf(
    allowed=get_args(DetachedPolicy),
    why="sets what happens without a human",
    help="what to do when no one is attached",
)
DETACHED = Branch(
    keys=dict.fromkeys(("run", "deliver", "tool"), DETACHED_LEAF),
    shorthand=Shorthand(DETACHED_LEAF, _detached),
)
ENABLE = Branch(
    keys={
        "state": Leaf(kind="boolean", why="sets which tools are enabled", help="enable the tool"),
        "allow_toggle": Leaf(
            allowed=get_args(AllowToggle),
            aliases={"always": "any"},
            why="sets which tools are enabled",
            help="whether `-t` and `-T` can change `state`",
        ),
    },
    shorthand=Shorthand(Leaf(kind="boolean", help="enable the tool"), _enable),
)
ENVIRONMENT = Branch(
    names=NamedKeys(
        Leaf(
            kind="variable",
            private=True,
            why="sets a program's environment",
            help="value of the variable; `true` inherits it",
        ),
        "a variable",
        VARIABLE,
    ),
    shorthand=Shorthand(Leaf(kind="argv", help="variables that the program inherits"), _passed_on),
)
SANDBOX = Branch(
    keys={
        "enable": Leaf(kind="boolean", help="run in a sandbox"),
        "read": Leaf(kind="paths", help="additional paths that can be read and executed"),
        "write": Leaf(kind="paths", help="additional paths that can be written"),
        "network": Leaf(kind="boolean", help="allow network access"),
    },
    shorthand=Shorthand(Leaf(kind="boolean", help="run in a sandbox"), _sandbox),
    why="loosens the sandbox",
)
RULES = Leaf(
    kind="rules",
    why="sets which calls run without asking",
    help="rules by argument, which take precedence over `run`; rules of all files and flags apply",
)
QUESTIONS = Branch(
    names=NamedKeys(QUESTION, "a question ID", QUESTION_ID, star=QUESTION), star_covers_names=True
)

_ANY_TOOL: dict[str, Node] = {
    "run": Leaf(
        allowed=get_args(RunPolicy),
        why="sets whether you are asked before it runs",
        help="whether to ask before it runs",
    ),
    "result": Leaf(
        allowed=get_args(ResultPolicy),
        why="sets whether you are asked before a model reads it",
        help="whether to ask before the model reads the result",
    ),
    "rules": RULES,
    "deadline": _within("maximum time for an approval; afterwards the call fails"),
    "detached": DETACHED,
    "enable": ENABLE,
    "questions": QUESTIONS,
    "timeout": Leaf(
        kind="seconds", help="maximum time of a call: seconds, or a duration such as `2m`"
    ),
    "environment": ENVIRONMENT,
    "cwd": Leaf(
        why="chooses where a program runs", help="working directory, relative to the workspace"
    ),
    "network": Leaf(
        kind="boolean", why="sets whether a program has network access", help="allow network access"
    ),
    "sandbox": SANDBOX,
    "hidden": Leaf(
        kind="boolean", help="do not show calls and results, except a failed `ask_user`"
    ),
    "style": Leaf(allowed=get_args(ToolStyle), help="how calls and results are shown"),
}
PARAMETER = Branch(
    keys={
        "required": Leaf(kind="required", help="the argument is required"),
        "description": Leaf(help="description for the model"),
        "type": Leaf(kind="json_type", help="JSON type"),
    },
    names=NamedKeys(
        Leaf(kind="keyword", help="keyword of JSON Schema, such as `enum`, `minimum`, `items`"),
        "a keyword of JSON Schema",
        ".+",
        refusal=keyword_refusal,
    ),
)
TOOL = Branch(
    keys={
        **_ANY_TOOL,
        "source": Leaf(allowed=get_args(ToolSource), help="where the tool comes from"),
        "command": Leaf(kind="argv", why=_RUNS, help="program and arguments"),
        "shell": Leaf(kind="boolean", why=_RUNS, help="run the command as a shell script"),
        "plugin": Leaf(why=_RUNS, help="name of a tool in an installed package"),
        "protocol": Leaf(
            allowed=get_args(OutputProtocol),
            why="lets the output of a program ask questions",
            help=(
                "meaning of stdout: the result as text, or an outcome as JSON, which can ask"
                " questions"
            ),
        ),
        "deadlines": Leaf(
            kind="boolean", help="run the command again if its question was not answered in time"
        ),
        "parameters": Branch(
            names=NamedKeys(PARAMETER, "a parameter", NAME), why="changes the arguments of a tool"
        ),
        "summary": Leaf(
            why=_INSTRUCTS,
            help="short description for the model; `describe_tools` returns the full description",
        ),
        "description": Leaf(why=_INSTRUCTS, help="full description"),
        "rename": Leaf(
            why="replaces a tool with another one",
            help="name under which an MCP server's tool is used",
        ),
    }
)
_RULED_TOOLS = Branch(
    names=NamedKeys(
        Branch(keys={"rules": RULES}), "a tool's name", ".+", star=Branch(keys={"rules": RULES})
    )
)
AGENT = Branch(keys={"tools": _RULED_TOOLS})
PROJECT = Branch(
    keys={"tools": _RULED_TOOLS, "agents": Branch(names=NamedKeys(AGENT, "an agent's name", NAME))},
    why="sets which calls run without asking",
)
MCP = Branch(
    keys={
        "command": Leaf(kind="argv", help="program and arguments"),
        "url": Leaf(help="URL of the server"),
        "headers": Branch(
            names=NamedKeys(
                Leaf(private=True, help="header sent with every request"), "a header", HEADER
            )
        ),
        "environment": ENVIRONMENT,
        "sandbox": SANDBOX,
        "sampling": Leaf(kind="boolean", help="allow the server to use models"),
        "protocol": Leaf(
            allowed=get_args(McpProtocol),
            help="protocol version (default: the newest that both sides support)",
        ),
    },
    why="connects to an MCP server",
)
LLM = Branch(
    keys={
        "kind": Leaf(allowed=get_args(Family), help="API protocol of the provider"),
        "base_url": Leaf(why="changes where requests are sent", help="URL for requests"),
        "api_key_env": Leaf(
            why="sends a variable of your environment", help="environment variable with the API key"
        ),
        "profile": Branch(
            names=NamedKeys(
                Leaf(kind="json", help="overrides a known capability of the models"),
                "a capability",
                ".+",
            )
        ),
    }
)
_LIMITS = {
    "question": "maximum characters of a question's text, and of an option",
    "context": "maximum bytes of a question's context",
    "options": "maximum options of a question",
    "form": "maximum questions of a form",
    "shown": (
        "maximum different questions per turn that are sent to people while no one is attached"
    ),
    "repeats": "how often a call may ask the same question",
    "rejected_cycles": "rejections by a model in a row, after which only a person may answer",
    "cycles": "maximum model calls per turn",
    "seconds": "maximum duration of a turn, not counting the time that people take to answer",
    "tool_output": "maximum bytes of a tool result for the model",
    "batch": "maximum bytes recorded in one write",
    "json_depth": "maximum nesting depth of JSON",
    "event_line": "maximum bytes of one event",
}
PEOPLE = Branch(
    names=NamedKeys(
        Branch(
            keys={
                "logins": Leaf(
                    kind="names",
                    help=(
                        "login names on the system and on the page; each can belong to one person"
                        " only"
                    ),
                ),
                "notify": Leaf(
                    kind="argv", private=True, help="Apprise URLs to notify the person of questions"
                ),
            }
        ),
        "a person's name",
        PERSON,
    ),
    why="defines people",
)
GROUPS = Branch(
    names=NamedKeys(
        Branch(keys={"members": Leaf(kind="names", help="people and other groups")}),
        "a group's name",
        PERSON,
    ),
    why="defines people",
)
LIMITS = Branch(
    keys={
        name: (
            Leaf(kind="number", minimum=0, help=_LIMITS[name])
            if name == "seconds"
            else Leaf(kind="integer", minimum=1, help=_LIMITS[name])
        )
        for name in Limits.__struct_fields__
    }
)
PROMPT = Branch(
    keys={
        "mode": Leaf(allowed=get_args(Mode), help="style of prompts"),
        "text_menu": Leaf(kind="boolean", help="show a menu before every text field"),
        "settle_ms": Leaf(
            kind="integer",
            minimum=0,
            maximum=10_000,
            why="sets when keys are accepted",
            help=(
                "milliseconds for which a new prompt ignores keys, so that keys typed for something"
                " else do not answer it"
            ),
        ),
        "bell": Leaf(kind="boolean", help="ring the terminal's bell when an answer is needed"),
        "notify": Leaf(kind="boolean", help="desktop notifications"),
    }
)
NOTIFY = Branch(
    keys={
        "command": Leaf(kind="argv", why=_RUNS, help="command to run when an answer is needed"),
        "urls": Leaf(
            kind="argv",
            private=True,
            why="sends questions to other services",
            help="Apprise URLs to which `midturn serve` sends questions",
        ),
        "after": Leaf(kind="seconds", help="time after which an open question is sent"),
    }
)
CHANNEL = Branch(
    keys={
        "kind": Leaf(
            help=(
                "type of channel: `telegram`, `email`, `slack`, `discord`, `matrix`, `ntfy`, or one"
                " of a plug-in"
            )
        ),
        "asks": Leaf(
            kind="names",
            help="kinds of questions to send: `tool`, `run`, `deliver`, `review` (default: all)",
        ),
        "people": Leaf(
            kind="names", help="people who receive questions (default: all paired people)"
        ),
        "rooms": Leaf(
            kind="names",
            help="rooms that receive questions instead of people; all members can read them",
        ),
    },
    names=NamedKeys(
        Leaf(
            kind="json",
            help=(
                "option of the channel type; `<key>_env` and `<key>_file` name the source of a"
                " secret"
            ),
        ),
        "an option",
        NAME,
    ),
    why="sends questions to other services, and accepts answers",
)
KEYS = Branch(
    keys={
        "assistant": ASSISTANT,
        "conversation": Branch(
            keys={
                "store": Leaf(
                    why="sets where your conversations are stored",
                    help=(
                        "store of conversations (default: your data directory): a directory or a"
                        " `postgresql://…` URL"
                    ),
                ),
                "keep": Leaf(
                    kind="seconds",
                    why="deletes conversations",
                    help=(
                        "how long to keep finished conversations, such as `90d` (default: forever)."
                        " Only read from your own file"
                    ),
                ),
                "inquiry": Branch(keys={"assistant": Branch(keys=SIDE_ASSISTANT)}),
                "tools": Branch(
                    names=NamedKeys(TOOL, "a tool's name", NAME, star=Branch(keys=_ANY_TOOL))
                ),
            }
        ),
        "providers": Branch(
            keys={
                "llm": Branch(names=NamedKeys(LLM, "a provider's name", NAME)),
                "mcp": Branch(names=NamedKeys(MCP, "a server's name", NAME)),
            }
        ),
        "people": PEOPLE,
        "groups": GROUPS,
        "channels": Branch(names=NamedKeys(CHANNEL, "a channel's name", NAME)),
        "agents": Branch(names=NamedKeys(AGENT, "an agent's name", NAME)),
        "projects": Branch(names=NamedKeys(PROJECT, "the absolute path of a directory", "/.*")),
        "limits": LIMITS,
        "prompt": PROMPT,
        "display": Branch(
            keys={"reasoning": Leaf(kind="boolean", help="show the model's reasoning")}
        ),
        "notify": NOTIFY,
        "user": Branch(
            keys={
                "name": Leaf(
                    why="sets your name",
                    help="name recorded with your answers (default: your login name)",
                )
            }
        ),
        "web": Branch(
            keys={
                "secrets": Leaf(
                    kind="boolean",
                    why="sets whether the browser accepts secrets",
                    help="accept secrets on the page",
                )
            }
        ),
    }
)
