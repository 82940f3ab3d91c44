"""Prompters for programs. Answers come from the inbox, from `input()`, or from rules."""

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
from midturn.terminal.prompts.plain_scene import Dialog, PromptBase, Say, Saying

if TYPE_CHECKING:
    from midturn.events.prompt import Prompt
    from midturn.ports import Tool


Announce: TypeAlias = Callable[[Prompt], Awaitable[Any] | None]
OnWithdrawn: TypeAlias = Callable[[str, str], Awaitable[Any] | None]


class InboxPrompter(Prompter):
    """Waits for an answer from `store.answer` or `midturn answer`, in any process. The turn then
    continues immediately.

    Without a prompter, the turn is suspended and the program can end. With this prompter, the
    program waits. Prompts that an inbox cannot answer while the conversation is locked (secrets,
    permissions, reviews) are handled as if no one was attached: the policy `detached` applies,
    and by default the turn is suspended.

    Args:
        announce: Called with each question when it is asked, so that you can notify the person
            who should answer. `prompt.id` is the id for `store.answer`. Sync or async.
        withdrawn: Called with the prompt's `id` and the responder, if the question was answered
            elsewhere. Sync or async.
    """

    concurrent = True
    via = "inbox"

    def __init__(
        self, announce: Announce | None = None, withdrawn: OnWithdrawn | None = None
    ) -> None:
        self._announce = announce
        self._withdrawn = withdrawn

    async def prompt(self, prompt: Prompt) -> Reply:
        """Wait until the question is answered elsewhere. The answer cancels this prompt.

        Args:
            prompt: The prompt.
        """
        if prompt.kind not in ("tool", "deliver") or isinstance(
            prompt.question.answer_type, SecretType
        ):
            return Unavailable()
        if self._announce:
            await _await_if_needed(self._announce(prompt))
        await asyncio.Event().wait()
        raise AssertionError("this event is never set")

    async def withdrawn(self, id: str, by: str) -> None:
        """Call the callback `withdrawn`, because the question was answered elsewhere.

        Args:
            id: Id of the question, as in `prompt.id`.
            by: Name of the responder.
        """
        if self._withdrawn:
            await _await_if_needed(self._withdrawn(id, by))


async def _await_if_needed(said: Awaitable[Any] | None) -> None:
    if inspect.isawaitable(said):
        await said


# --------------------------------------------------------------------------------------------------
# Prompts with `input()`, for notebooks and interactive interpreters


class InputPrompter(Prompter):
    """Asks with `print()` and `input()`, and secrets with `getpass`. For notebooks, which have no
    terminal.

    This prompter blocks the event loop while it waits, so an answer given elsewhere does not remove
    the prompt. If there is no standard input, or if it is a pipe or file that has ended, questions
    are handled as if no one was attached.

    Args:
        width: Width of a row in cells.
    """

    via = "input"

    def __init__(self, width: int = 80) -> None:
        self._width = width

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask line by line until there is a reply. Ctrl-D in a terminal ends the turn. If standard
        input is a pipe or file that ends, the question is handled as if no one was attached.

        Args:
            prompt: The prompt.
        """
        walk = field_walk(prompt)
        try:
            if walk is None:
                return self._ask_at_console(prompt)
            while (reply := walk.take(self._ask_at_console(walk.prompt))) is None:
                pass
        except EOFError:
            return EndedTurn() if sys.stdin is not None and sys.stdin.isatty() else Unavailable()
        except (
            OSError,
            RuntimeError,
        ):  # no input is available, as in an unattended notebook or with a closed stdin
            return Unavailable()
        return reply

    def _ask_at_console(self, prompt: Prompt) -> Reply:
        scene = PromptBase(prompt, self._width)
        reply = _run_dialog(plain_dialog(scene))
        print(scene.transcript(reply))  # noqa: T201  shown to the person at the console
        return reply


def _run_dialog(dialog: Dialog) -> Reply:
    saying = next(dialog)
    while True:
        try:
            saying = dialog.send(_show_and_read(saying))
        except StopIteration as stop:
            return stop.value


def _show_and_read(saying: Saying) -> str:
    """Show text and return the line that the user typed. If the text is meant to be edited, return
    it unchanged, because there is no editor.
    """
    if not isinstance(saying, Say):
        return saying.text
    for row in saying.rows:
        print(row)  # noqa: T201  shown to the person at the console
    return getpass.getpass(saying.ask) if saying.entry == "hidden" else input(saying.ask)


# --------------------------------------------------------------------------------------------------
# Answers by rules


_APPROVAL_IDS = ("__run__", "__deliver__")


class _AnswerRule(Conditional, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule. Its answer is used if all of its conditions are met."""

    answer: Any

    @property
    def is_permissive(self) -> bool:
        """Whether the answer allows the call. Every answer except false allows it."""
        return self.answer is not False


class Rules(Prompter):
    """Answers by rules. The answers are recorded as answers of a policy: `{"by": "policy",
    "name": …}`.

    A key is `<tool>.<question>`. `*` matches any tool or any question, and the most specific key
    is used. `<tool>.__run__` and `<tool>.__deliver__` are the approvals of a call and of its
    result; `*` does not match them.

    A value is a rule or a list of rules; the first rule whose conditions are met is used. A rule
    is a table as in `routes`, such as `{"answer": "eu-1"}`, with these optional keys:

    - `when`: conditions by argument name or JSON pointer. A condition is a glob for the text, a
      value, `{"below": 100}`, `{"one_of": […]}`, `{"matches": "…"}`, or a list with one of these
      for each element.
    - `reason`: explanation to record.
    - `shell`: whether a glob with a wildcard may match shell syntax. By default, such a glob
      matches only plain words: `git *` does not match `git status; rm -r .`.

    Like a configured answer, a rule also answers exclusive questions. It does not answer
    questions that are assigned to people. If no rule matches, the prompter `otherwise` is asked,
    and the answer is recorded as an answer of this prompter. Without `otherwise`, the question is
    handled as if no one was attached.

    Args:
        rules: Rules by key.
        name: Name of the policy. It is recorded.
        otherwise: Prompter to ask if no rule matches.

    Raises:
        ConfigError: A key or a rule is invalid. An agent also raises this error if a rule for one
            of its tools uses an unknown argument. If the name of a tool seems to be misspelled,
            the agent logs a warning.
    """

    by: Literal["user", "policy"] = "policy"

    def __init__(
        self, rules: Mapping[str, object], *, name: str = "rules", otherwise: Prompter | None = None
    ) -> None:
        self.name = name
        self.concurrent = otherwise is None or otherwise.concurrent
        self._rules = {
            _parse_key(key): _rules(f"rules[{key!r}]", given) for key, given in rules.items()
        }
        self._otherwise = otherwise

    @property
    def otherwise(self) -> Prompter | None:
        """Prompter that is asked if no rule matches."""
        return self._otherwise

    def speaker(self, prompt: Prompt) -> Prompter:
        """Return the prompter that answers: this policy if a rule matches, or the prompter
        `otherwise`.

        Args:
            prompt: The prompt.
        """
        return self if self._otherwise is None or self._reply(prompt) else self._otherwise

    async def prompt(self, prompt: Prompt) -> Reply:
        """Answer by the first matching rule.

        Args:
            prompt: The prompt.
        """
        reply = self._reply(prompt)
        if reply is not None:
            return reply
        return Unavailable() if self._otherwise is None else await self._otherwise.prompt(prompt)

    def _reply(self, prompt: Prompt) -> Reply | None:
        if prompt.people is not None:  # only the assigned people may decide
            return None
        # rules gave the answers, so only the prompter `otherwise` can review them
        if prompt.kind == "review":
            return Submitted() if self._otherwise is None else None
        rule = self._rule(prompt)
        return Answered(rule.answer, reason=rule.reason) if rule else None

    def _rule(self, prompt: Prompt) -> _AnswerRule | None:
        tool, question = prompt.tool, prompt.question.id
        keys = (
            [(tool, question)]
            if question in _APPROVAL_IDS
            else [(tool, question), (tool, "*"), ("*", question), ("*", "*")]
        )
        return next(
            (
                rule
                for key in keys
                for rule in self._rules.get(key, ())
                if rule.holds(prompt.arguments)
            ),
            None,
        )


def check_rules(prompter: Prompter | None, tools: Iterable[Tool]) -> None:
    """Check that the rules use only arguments that exist in their tools. A rule with an unknown
    argument would never match.

    Rules for `*` and for tools that are not in `tools` are not checked, because other agents may
    use the same rules.

    Raises:
        ConfigError: A rule uses an argument that its tool does not have.
    """
    schemas = {tool.definition.name: tool.definition.parameters for tool in tools}
    while isinstance(prompter, Rules):
        for (
            tool,
            question,
        ), rules in prompter._rules.items():  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]  same module
            names = _only_properties(schemas.get(tool, {}))
            if names is not None:
                _check_conditions(tool, question, rules, names)
        prompter = prompter.otherwise


def misspelled_tools(prompter: Prompter | None, known: Collection[str]) -> list[str]:
    """Return a warning for each tool name that seems to be misspelled in the rules. A rule with a
    misspelled name never matches.

    Other agents may use the same rules. A name therefore counts as misspelled only if it is
    similar to a tool without rules.

    Args:
        prompter: The rules. Any other prompter is not checked.
        known: Names of all tools of the agent.
    """
    ruled: list[tuple[str, str]] = []
    while isinstance(prompter, Rules):
        ruled += prompter._rules  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]  same module
        prompter = prompter.otherwise
    without_rules = [name for name in known if name not in {tool for tool, _ in ruled}]
    names = ", ".join(f"`{name}`" for name in known)
    return [
        f"rules[{f'{tool}.{question}'!r}]: the agent has no tool {tool!r}, so this rule never"
        f" matches.{near} Its tools are: {names}."
        for tool, question in ruled
        if tool not in known and (near := did_you_mean(tool, without_rules))
    ]


def _check_conditions(
    tool: str, question: str, rules: Iterable[_AnswerRule], names: Sequence[str]
) -> None:
    for argument in (argument_of(condition) for rule in rules for condition in rule.when):
        if argument not in names:
            known = ", ".join(f"`{name}`" for name in names) or "none"
            raise ConfigError(
                f"rules[{f'{tool}.{question}'!r}]: `when` uses the argument {argument!r}, which the"
                f" tool `{tool}` does not have.{did_you_mean(argument, names)} Its arguments are:"
                f" {known}."
            )


def _only_properties(schema: JsonObject) -> Sequence[str] | None:
    """Return the properties of a schema if it allows no other properties. Otherwise return None."""
    properties = schema.get("properties")
    if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
        return None
    return list(properties)


def _parse_key(key: str) -> tuple[str, str]:
    tool, dot, question = key.partition(".")
    if not (dot and tool and question):
        raise ConfigError(
            f"rules[{key!r}]: the key must be `<tool>.<question>`; `*` matches any tool or any"
            " question."
        )
    return tool, question


def _rules(where: str, given: object) -> tuple[_AnswerRule, ...]:
    """Return the rules of one key. The program passes one table or a list of tables."""
    tables = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    return tuple(
        _parse_rule(where if len(tables) == 1 else f"{where}[{number}]", table)
        for number, table in enumerate(tables)
    )


def _parse_rule(where: str, table: object) -> _AnswerRule:
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"{where}: a rule must be a table, such as `{{'answer': {table!r}}}`, or a list of"
            " tables."
        )
    return read_rule(
        where,
        cast("Mapping[str, object]", table),
        _AnswerRule,
        "`answer`, and may have `when`, `reason` and `shell`",
    )
