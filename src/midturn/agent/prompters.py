"""A person who answers through the inbox, while the program waits."""

from __future__ import annotations

import asyncio
import getpass
import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from midturn.errors import ConfigError
from midturn.events.prompt import Prompt
from midturn.prompter import Prompter
from midturn.question.answer_type import SecretType
from midturn.question.json_value import JsonObject
from midturn.question.reply import Answered, EndedTurn, Reply, Submitted, Unavailable
from midturn.question.text import did_you_mean
from midturn.routing.rules import Conditional, argument_of, read_rule
from midturn.terminal.prompts.field_walk import field_walk
from midturn.terminal.prompts.plain_prompt import plain_dialog
from midturn.terminal.prompts.plain_scene import Dialog, Say, Saying, Scene

if TYPE_CHECKING:
    from midturn.events.prompt import Prompt
    from midturn.ports import Tool


Announce: TypeAlias = Callable[[Prompt], Awaitable[Any] | None]
Withdrawn: TypeAlias = Callable[[str, str], Awaitable[Any] | None]


class InboxPrompter(Prompter):
    """Waits for an answer by `store.answer` or `midturn answer`, in this process or another; the turn goes on at once then.

    Unlike a turn without a prompter, which is suspended and leaves, the program stays. What an inbox cannot answer while the
    conversation is held (a secret, a permission, a review) counts as if no one was attached: `detached` decides, and by default the turn
    is suspended.

    Args:
        announce: Hears of each question when it is asked, to tell the person who should answer; `prompt.id` is what
            `store.answer` takes. It may be a coroutine function.
        withdrawn: Hears, with the prompt's `id`, who answered elsewhere. It may be a coroutine function.
    """

    concurrent = True
    via = "inbox"

    def __init__(self, announce: Announce | None = None, withdrawn: Withdrawn | None = None) -> None:
        self._announce = announce
        self._withdrawn = withdrawn

    async def prompt(self, prompt: Prompt) -> Reply:
        """Wait until the answer has come from elsewhere, which takes this prompt away.

        Args:
            prompt: What to ask.
        """
        if prompt.kind not in ("tool", "deliver") or isinstance(prompt.question.answer_type, SecretType):
            return Unavailable()
        if self._announce:
            await _done(self._announce(prompt))
        await asyncio.Event().wait()
        raise AssertionError("this event is never set")

    async def withdrawn(self, id: str, by: str) -> None:
        """Pass on who answered.

        Args:
            id: The question, as `prompt.id`.
            by: Who answered.
        """
        if self._withdrawn:
            await _done(self._withdrawn(id, by))


async def _done(said: Awaitable[Any] | None) -> None:
    if inspect.isawaitable(said):
        await said


# ----------------------------------------------------------------------------------------------------------------------
# A person who answers where `input()` reads: in a notebook, in an interactive interpreter


class InputPrompter(Prompter):
    """Asks with `print()` and `input()`, and secrets with `getpass`: for notebooks, which have no terminal of their own.

    It blocks the event loop while it waits, as `input()` does there; nothing that others answer meanwhile takes the question away. If
    there is no input, or it ends and is no terminal (a closed pipe), it is as if no one was attached.

    Args:
        width: How many cells a row has.
    """

    via = "input"

    def __init__(self, width: int = 80) -> None:
        self._width = width

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, line by line, until there is a reply. Ctrl-D at a terminal ends the turn; at the end of any other input, no one is attached.

        Args:
            prompt: What to ask.
        """
        walk = field_walk(prompt)
        try:
            if walk is None:
                return self._asked(prompt)
            while (reply := walk.take(self._asked(walk.prompt))) is None:
                pass
        except EOFError:
            return EndedTurn() if sys.stdin is not None and sys.stdin.isatty() else Unavailable()
        except (OSError, RuntimeError):  # no input here: a notebook that runs unattended, a closed stdin
            return Unavailable()
        return reply

    def _asked(self, prompt: Prompt) -> Reply:
        scene = Scene(prompt, self._width)
        reply = _conversed(plain_dialog(scene))
        print(scene.transcript(reply))  # noqa: T201  where the person reads
        return reply


def _conversed(dialog: Dialog) -> Reply:
    saying = next(dialog)
    while True:
        try:
            saying = dialog.send(_heard(saying))
        except StopIteration as stop:
            return stop.value


def _heard(saying: Saying) -> str:
    """Say something, and return the line that was typed; a text to be edited stays as it is, for there is no editor."""
    if not isinstance(saying, Say):
        return saying.text
    for row in saying.rows:
        print(row)  # noqa: T201  where the person reads
    return getpass.getpass(saying.ask) if saying.entry == "hidden" else input(saying.ask)


# ----------------------------------------------------------------------------------------------------------------------
# A policy of the program, which answers by rules


_APPROVALS = ("__run__", "__deliver__")


class _Rule(Conditional, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An answer, given where all conditions hold."""

    answer: Any

    @property
    def lets_through(self) -> bool:
        """Whether the answer is anything but a no."""
        return self.answer is not False


class Rules(Prompter):
    """Answers by rules, and is recorded as the policy that it is: `{"by": "policy", "name": …}`.

    A key is `<tool>.<question>`, where `*` stands for any tool or any question; the most particular key decides. `<tool>.__run__` and
    `<tool>.__deliver__` are approvals of a call and of its result, which `*` does not stand for. A value is a rule or a list of them, of
    which the first that holds decides: `{"answer": "eu-1"}`, as in `routes`, and beside it `when` (by argument, or by JSON pointer: a glob
    over its text, a value, `{"below": 100}`, `{"one_of": […]}`, `{"matches": "…"}`, or a list with one of these for each element), a
    `reason`, which is recorded, and `shell`. A glob with a wildcard lets only plain words through, unless the rule says `"shell": True`:
    `git *` is no yes to `git status; rm -r .`. As a configured answer does, a rule answers also what only a person may be asked,
    but nothing that is for certain people.

    Where no rule holds, `otherwise` is asked, and is recorded as who that is; without it, it is as if no one was attached.

    Args:
        rules: What is answered, by key.
        name: What the policy is called; recorded.
        otherwise: The prompter that is asked where no rule holds.

    Raises:
        ConfigError: A key or a rule is not one. An agent raises it, too, if a rule for one of its tools names an argument that the tool
            does not have, and warns of a tool that seems to be misspelt.
    """

    by: Literal["user", "policy"] = "policy"

    def __init__(self, rules: Mapping[str, object], *, name: str = "rules", otherwise: Prompter | None = None) -> None:
        self.name = name
        self.concurrent = otherwise is None or otherwise.concurrent
        self._rules = {_key(key): _rules(f"rules[{key!r}]", given) for key, given in rules.items()}
        self._otherwise = otherwise

    @property
    def otherwise(self) -> Prompter | None:
        """The prompter that is asked where no rule holds."""
        return self._otherwise

    def speaker(self, prompt: Prompt) -> Prompter:
        """Return who answers: this policy where a rule holds, else the one after it.

        Args:
            prompt: What is asked.
        """
        return self if self._otherwise is None or self._reply(prompt) else self._otherwise

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer by the rule that holds.

        Args:
            prompt: What is asked.
        """
        reply = self._reply(prompt)
        if reply is not None:
            return reply
        return Unavailable() if self._otherwise is None else await self._otherwise.prompt(prompt)

    def _reply(self, prompt: Prompt) -> Reply | None:
        if prompt.people is not None:  # theirs alone to decide
            return None
        if prompt.kind == "review":  # what is reviewed are the answers of rules, unless there is a person
            return Submitted() if self._otherwise is None else None
        rule = self._rule(prompt)
        return Answered(rule.answer, reason=rule.reason) if rule else None

    def _rule(self, prompt: Prompt) -> _Rule | None:
        tool, question = prompt.tool, prompt.question.id
        keys = [(tool, question)] if question in _APPROVALS else [(tool, question), (tool, "*"), ("*", question), ("*", "*")]
        return next((rule for key in keys for rule in self._rules.get(key, ()) if rule.holds(prompt.arguments)), None)


def check_rules(prompter: Prompter | None, tools: Iterable[Tool]) -> None:
    """Check that each rule of a `Rules` names arguments that its tool has: a rule on any other argument would never hold.

    Rules for tools that are not among `tools`, and for every tool, are not checked: other agents may use the same rules.

    Raises:
        ConfigError: A rule names an argument that its tool does not have.
    """
    schemas = {tool.definition.name: tool.definition.parameters for tool in tools}
    while isinstance(prompter, Rules):
        for (tool, question), rules in prompter._rules.items():  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]  of this module
            names = _closed_properties(schemas.get(tool, {}))
            if names is not None:
                _check_conditions(tool, question, rules, names)
        prompter = prompter.otherwise


def misspelt_tools(prompter: Prompter | None, known: Collection[str]) -> list[str]:
    """Return a warning for each tool that a `Rules` seems to misspell: a rule for a tool that the agent does not have never holds.

    Other agents may use the same rules, so a tool counts as misspelt only if its name is like that of a tool without rules.

    Args:
        prompter: The rules, or any other prompter, which is not checked.
        known: Names of all tools of the agent.
    """
    ruled: list[tuple[str, str]] = []
    while isinstance(prompter, Rules):
        ruled += prompter._rules  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]  of this module
        prompter = prompter.otherwise
    without_rules = [name for name in known if name not in {tool for tool, _ in ruled}]
    names = ", ".join(f"`{name}`" for name in known)
    return [
        f"rules[{f'{tool}.{question}'!r}]: the agent has no tool {tool!r}, so this rule never holds.{near} Its tools are: {names}."
        for tool, question in ruled
        if tool not in known and (near := did_you_mean(tool, without_rules))
    ]


def _check_conditions(tool: str, question: str, rules: Iterable[_Rule], names: Sequence[str]) -> None:
    for argument in (argument_of(condition) for rule in rules for condition in rule.when):
        if argument not in names:
            known = ", ".join(f"`{name}`" for name in names) or "none"
            raise ConfigError(
                f"rules[{f'{tool}.{question}'!r}]: `when` names the argument {argument!r}, which the tool `{tool}` does not have."
                f"{did_you_mean(argument, names)} Its arguments are: {known}."
            )


def _closed_properties(schema: JsonObject) -> Sequence[str] | None:
    """Return the names of the only properties that a schema allows; None if it allows others."""
    properties = schema.get("properties")
    if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
        return None
    return list(properties)


def _key(key: str) -> tuple[str, str]:
    tool, dot, question = key.partition(".")
    if not (dot and tool and question):
        raise ConfigError(f"rules[{key!r}]: a rule is named `<tool>.<question>`; `*` stands for any tool, or for any question of one.")
    return tool, question


def _rules(where: str, given: object) -> tuple[_Rule, ...]:
    """Return one rule, or a list of them, as a program writes them: tables."""
    tables = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    return tuple(_answering(where if len(tables) == 1 else f"{where}[{number}]", table) for number, table in enumerate(tables))


def _answering(where: str, table: object) -> _Rule:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: a rule is a table, such as `{{'answer': {table!r}}}`, or a list of them.")
    return read_rule(where, cast("Mapping[str, object]", table), _Rule, "`answer`, and may have `when`, `reason` and `shell`")
