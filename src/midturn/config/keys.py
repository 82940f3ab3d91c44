"""Every key of the configuration: its type, what is allowed, and what it does where that is worth a question.

Checking, suggesting, trust and `config explain` all read this one table; `untrusted` says what a workspace may set unasked.
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

# ----------------------------------------------------------------------------------------------------------------------
# Entries of the table of keys


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
    """One value. `least` and `most` bound numbers; `aliases` are read as the values that they name; `private` is not displayed.

    `why` says what it does, where a workspace's file sets it and its user is asked for approval (`runs a program`).
    """

    kind: ValueKind = "string"
    allowed: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    least: float | None = None
    most: float | None = None
    why: str = ""
    private: bool = False
    help: str = ""


class Names(Struct, frozen=True):
    """Free names in a table: those that match `pattern`, each with `node` below; `'*'` has a node of its own where it is allowed.

    `refusal` says why a name that matches is not allowed; None means that it is.
    """

    node: Node
    what: str
    pattern: str
    star: Node | None = None
    refusal: Callable[[str], str | None] | None = None


class Shorthand(Struct, frozen=True):
    """A plain value in place of a table, and the fields that it stands for."""

    leaf: Leaf
    expand: Callable[[Json], Mapping[str, Json]]


class Branch(Struct, frozen=True, kw_only=True):
    """A table. `implied` fields are set by writing the table at all; `why` is that of every key in it that has none."""

    keys: Mapping[str, Node] = {}
    names: Names | None = None
    shorthand: Shorthand | None = None
    implied: Mapping[str, Json] = {}
    star_covers_names: bool = False
    why: str = ""

    def child(self, name: str) -> Node:
        """Return the node of a key that was checked; what stands below a free value has no rules."""
        found = self.keys.get(name)
        if found is None and self.names is not None:
            found = self.names.star if name == "*" and self.names.star is not None else self.names.node
        return found if found is not None else _FREE


Node: TypeAlias = Leaf | Branch

_FREE = Leaf(kind="json")


VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"

_RUNS = "runs a program"
_TELLS = "tells a model what to do"


def _detached(value: Json) -> dict[str, Json]:
    return dict.fromkeys(("run", "deliver", "tool"), value)


def _enable(value: Json) -> dict[str, Json]:
    return {"state": value, "allow_toggle": "any"}


def _sandbox(value: Json) -> dict[str, Json]:
    return {"enable": value}


def _target(value: Json) -> dict[str, Json]:
    """A table always means a model, so who is meant by a word is kept under the key `''`, which no file can write."""
    return {"": "user"} if value == "user" else {"": "assistant", "escalation": value == "assistant_with_escalation"}


def _passed_on(value: Json) -> dict[str, Json]:
    return {str(name): True for name in (value if isinstance(value, list | tuple) else (value,))}


def _within(help: str) -> Leaf:
    return Leaf(kind="seconds", least=SHORTEST, most=LONGEST, why="sets until when you can answer", help=help)


MODEL = Branch(
    keys={
        "id": Leaf(
            kind="model",
            why="chooses who is asked, and who reads the conversation",
            help="provider/model, `scripted:FILE`, or `inherit` where another assistant's is meant",
        ),
        "parameters": Branch(
            why="changes what is sent with every request",
            names=Names(Leaf(kind="json", help="goes to the model as it is, such as `temperature`"), "a parameter of the model", ".+"),
        ),
    }
)
REQUEST = Branch(
    keys={
        "cache": Leaf(kind="cache", help="prompt cache: `off`, `short`, `long`, or a duration such as `5m`"),
        "max_retries": Leaf(kind="integer", least=0, most=100, help="how often a failed request is repeated"),
    }
)
SIDE_ASSISTANT: dict[str, Node] = {
    "system_prompt": Leaf(why=_TELLS, help="what the model is told first"),
    "model": MODEL,
    "request": REQUEST,
}
ASSISTANT = Branch(
    keys={
        **SIDE_ASSISTANT,
        "name": Leaf(help="what the assistant is called"),
        "tool_choice": Leaf(help="`auto`, `none`, `required`, or the name of a tool"),
    }
)
TARGET = Branch(
    keys={**SIDE_ASSISTANT, "escalation": Leaf(kind="boolean", help="a rejection goes on to the user")},
    shorthand=Shorthand(Leaf(allowed=("user", "assistant", "assistant_with_escalation"), help="who answers"), _target),
    implied={"": "assistant"},
    why="sets who answers",
)
QUESTION = Branch(
    keys={
        "target": TARGET,
        "answer": Leaf(kind="json", why="answers for you", help="a fixed answer: never asked"),
        "exclusive": Leaf(kind="boolean", why="sets whether others than a human may answer", help="whether only a human may answer"),
        "prompt_label": Leaf(help="shown beside who asks"),
        "deadline": _within("how long an answer may take; past it there is none"),
        "people": Leaf(
            kind="people",
            why="sets who may answer",
            help="whose question it is: `ask`, `only`, `approvals`, `remind_after`, `escalate`",
        ),
    }
)
DETACHED_LEAF = Leaf(
    allowed=get_args(DetachedPolicy),
    why="sets what happens without a human",
    help="what happens when no one is there",
)
DETACHED = Branch(
    keys=dict.fromkeys(("run", "deliver", "tool"), DETACHED_LEAF),
    shorthand=Shorthand(DETACHED_LEAF, _detached),
)
ENABLE = Branch(
    keys={
        "state": Leaf(kind="boolean", why="sets which tools are offered", help="whether the tool is offered"),
        "allow_toggle": Leaf(
            allowed=get_args(AllowToggle),
            aliases={"always": "any"},
            why="sets which tools are offered",
            help="whether -t and -T may change that",
        ),
    },
    shorthand=Shorthand(Leaf(kind="boolean", help="whether the tool is offered"), _enable),
)
ENVIRONMENT = Branch(
    names=Names(
        Leaf(kind="variable", private=True, why="sets a program's environment", help="its value for the program"),
        "a variable",
        VARIABLE,
    ),
    shorthand=Shorthand(Leaf(kind="argv", help="the variables that the program is given"), _passed_on),
)
SANDBOX = Branch(
    keys={
        "enable": Leaf(kind="boolean", help="whether there is one"),
        "read": Leaf(kind="paths", help="what else may be read and run"),
        "write": Leaf(kind="paths", help="what else may be written, too"),
        "network": Leaf(kind="boolean", help="may it use the network?"),
    },
    shorthand=Shorthand(Leaf(kind="boolean", help="whether processes are kept in a sandbox"), _sandbox),
    why="opens the sandbox",
)
RULES = Leaf(
    kind="rules",
    why="sets which calls run without asking",
    help="rules by argument, which decide in place of `run`; those of every file and flag count",
)
QUESTIONS = Branch(names=Names(QUESTION, "a question id", QUESTION_ID, star=QUESTION), star_covers_names=True)

_ANY_TOOL: dict[str, Node] = {
    "run": Leaf(allowed=get_args(RunPolicy), why="sets whether you are asked before it runs", help="ask before it runs?"),
    "result": Leaf(
        allowed=get_args(ResultPolicy),
        why="sets whether you are asked before a model reads it",
        help="ask before the model reads the result?",
    ),
    "rules": RULES,
    "deadline": _within("how long a permission may take; past it the call fails"),
    "detached": DETACHED,
    "enable": ENABLE,
    "questions": QUESTIONS,
    "timeout": Leaf(kind="seconds", help="seconds, or a duration such as `2m`"),
    "environment": ENVIRONMENT,
    "cwd": Leaf(why="chooses where a program runs", help="directory, relative to the workspace"),
    "network": Leaf(kind="boolean", why="sets whether a program has the network", help="may it use the network?"),
    "sandbox": SANDBOX,
    "hidden": Leaf(kind="boolean", help="calls and results are not drawn; a failed `ask_user` is"),
    "style": Leaf(allowed=get_args(ToolStyle), help="how calls and results are drawn"),
}
PARAMETER = Branch(
    keys={
        "required": Leaf(kind="required", help="whether it must be given"),
        "description": Leaf(help="what a model is told of it"),
        "type": Leaf(kind="json_type", help="its type in JSON"),
    },
    names=Names(Leaf(kind="keyword", help="such as `enum`, `minimum`, `items`"), "a keyword of JSON Schema", ".+", refusal=keyword_refusal),
)
TOOL = Branch(
    keys={
        **_ANY_TOOL,
        "source": Leaf(allowed=get_args(ToolSource), help="where the tool comes from"),
        "command": Leaf(kind="argv", why=_RUNS, help="program and arguments"),
        "shell": Leaf(kind="boolean", why=_RUNS, help="the command is a shell script"),
        "plugin": Leaf(why=_RUNS, help="a tool that an installed package brings, by its name there"),
        "protocol": Leaf(
            allowed=get_args(OutputProtocol),
            why="lets what a program prints ask questions",
            help="what stdout is: the result, or an outcome, which may ask",
        ),
        "deadlines": Leaf(kind="boolean", help="whether the command runs again when no one has answered what it asks in time"),
        "parameters": Branch(names=Names(PARAMETER, "a parameter", NAME), why="changes what a tool may be given"),
        "summary": Leaf(why=_TELLS, help="what a model is told; `describe_tools` tells the rest"),
        "description": Leaf(why=_TELLS, help="the whole documentation"),
        "rename": Leaf(why="puts a tool in another's place", help="the name of an MCP server's tool here"),
    }
)
_RULED_TOOLS = Branch(names=Names(Branch(keys={"rules": RULES}), "a tool's name", ".+", star=Branch(keys={"rules": RULES})))
AGENT = Branch(keys={"tools": _RULED_TOOLS})
PROJECT = Branch(
    keys={"tools": _RULED_TOOLS, "agents": Branch(names=Names(AGENT, "an agent's name", NAME))},
    why="sets which calls run without asking",
)
MCP = Branch(
    keys={
        "command": Leaf(kind="argv", help="program and arguments"),
        "url": Leaf(help="where the server listens"),
        "headers": Branch(names=Names(Leaf(private=True, help="sent with every request"), "a header", HEADER)),
        "environment": ENVIRONMENT,
        "sandbox": SANDBOX,
        "sampling": Leaf(kind="boolean", help="may the server ask models?"),
        "protocol": Leaf(allowed=get_args(McpProtocol), help="version of the protocol; by default the newest that both know"),
    },
    why="reaches an MCP server",
)
LLM = Branch(
    keys={
        "kind": Leaf(allowed=get_args(Family), help="which protocol it speaks"),
        "base_url": Leaf(why="sends requests there", help="where requests go"),
        "api_key_env": Leaf(why="sends a variable of your environment", help="the variable that holds the key"),
        "profile": Branch(names=Names(Leaf(kind="json", help="corrects what is known of its models"), "a capability", ".+")),
    }
)
_LIMITS = {
    "question": "characters of a question's text, and of an option",
    "context": "bytes of a question's context",
    "options": "options of a question",
    "form": "questions of a form",
    "shown": "different questions of a turn that are put to named people while no one is attached",
    "repeats": "how often a call may ask the same question",
    "rejected_cycles": "rejections by a model in a row, until only a person may answer",
    "cycles": "model calls of a turn",
    "seconds": "how long a turn may take, without the time that people take",
    "tool_output": "bytes of a tool's result that a model reads",
    "batch": "bytes of what is written at once",
    "json_depth": "how deep JSON may be nested",
    "event_line": "bytes of one event",
}
PEOPLE = Branch(
    names=Names(
        Branch(
            keys={
                "logins": Leaf(kind="names", help="users of the system and sign-ins of the page; each belongs to one person"),
                "notify": Leaf(kind="argv", private=True, help="where the person is told of questions (addresses of Apprise)"),
            }
        ),
        "a person's name",
        PERSON,
    ),
    why="says who people are",
)
GROUPS = Branch(
    names=Names(Branch(keys={"members": Leaf(kind="names", help="people, and other groups")}), "a group's name", PERSON),
    why="says who people are",
)
LIMITS = Branch(
    keys={
        name: Leaf(kind="number", least=0, help=_LIMITS[name]) if name == "seconds" else Leaf(kind="integer", least=1, help=_LIMITS[name])
        for name in Limits.__struct_fields__
    }
)
PROMPT = Branch(
    keys={
        "mode": Leaf(allowed=get_args(Mode), help="how prompts are drawn"),
        "text_menu": Leaf(kind="boolean", help="a menu row before every text field"),
        "settle_ms": Leaf(
            kind="integer",
            least=0,
            most=10_000,
            why="sets how soon keys count",
            help="pause in milliseconds before a new prompt accepts keys, so that keys typed for something else answer nothing",
        ),
        "bell": Leaf(kind="boolean", help="ring the terminal's bell when an answer is needed"),
        "notify": Leaf(kind="boolean", help="desktop notifications"),
    }
)
NOTIFY = Branch(
    keys={
        "command": Leaf(kind="argv", why=_RUNS, help="runs when an answer is needed"),
        "urls": Leaf(
            kind="argv", private=True, why="sends questions there", help="where `midturn serve` sends them (addresses of Apprise)"
        ),
        "after": Leaf(kind="seconds", help="how long a question waits before it is sent"),
    }
)
CHANNEL = Branch(
    keys={
        "kind": Leaf(help="what it is: `telegram`, `email`, `slack`, `discord`, `matrix`, `ntfy`, or what a package adds"),
        "asks": Leaf(kind="names", help="kinds of questions that are sent: `tool`, `run`, `deliver`, `review`; without it, all"),
        "people": Leaf(kind="names", help="who gets questions there; without it, everyone who is paired"),
        "rooms": Leaf(kind="names", help="rooms that get them instead; others read there, too"),
    },
    names=Names(Leaf(kind="json", help="what its kind takes; `<key>_env` and `<key>_file` say where a secret is"), "an option", NAME),
    why="sends questions there, and takes answers",
)
KEYS = Branch(
    keys={
        "assistant": ASSISTANT,
        "conversation": Branch(
            keys={
                "store": Leaf(
                    why="names the place of your conversations",
                    help="where conversations are kept, if not in your data directory: a directory, or `postgresql://…`",
                ),
                "keep": Leaf(
                    kind="seconds",
                    why="removes conversations",
                    help="for how long finished conversations are kept, such as `90d`; without it, for ever. Your own file says it alone",
                ),
                "inquiry": Branch(keys={"assistant": Branch(keys=SIDE_ASSISTANT)}),
                "tools": Branch(names=Names(TOOL, "a tool's name", NAME, star=Branch(keys=_ANY_TOOL))),
            }
        ),
        "providers": Branch(
            keys={
                "llm": Branch(names=Names(LLM, "a provider's name", NAME)),
                "mcp": Branch(names=Names(MCP, "a server's name", NAME)),
            }
        ),
        "people": PEOPLE,
        "groups": GROUPS,
        "channels": Branch(names=Names(CHANNEL, "a channel's name", NAME)),
        "agents": Branch(names=Names(AGENT, "an agent's name", NAME)),
        "projects": Branch(names=Names(PROJECT, "the absolute path of a directory", "/.*")),
        "limits": LIMITS,
        "prompt": PROMPT,
        "display": Branch(keys={"reasoning": Leaf(kind="boolean", help="draw what the model thinks")}),
        "notify": NOTIFY,
        "user": Branch(keys={"name": Leaf(why="says who you are", help="who is recorded with your answers; without it, your login")}),
        "web": Branch(keys={"secrets": Leaf(kind="boolean", why="sets whether the browser takes secrets", help="answer secrets there?")}),
    }
)
