"""A policy of the program, which answers by rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from midturn.core.reply import Answered, Reply, Submitted, Unavailable
from midturn.core.routing.rules import Rule, first_that_holds, read_rules
from midturn.errors import ConfigError
from midturn.prompter import Prompter

if TYPE_CHECKING:
    from midturn.core.prompt import Prompt

_APPROVALS = ("__run__", "__deliver__")


class Rules(Prompter):
    """Answers by rules, and is recorded as the policy that it is: `{"by": "policy", "name": …}`.

    A key is `<tool>.<question>`, where `*` stands for any tool or any question; the most particular key decides. `<tool>.__run__` and
    `<tool>.__deliver__` are approvals of a call and of its result, which `*` does not stand for. A value is a rule or a list of them, of
    which the first that holds decides: `{"answer": "eu-1"}`, as in `routes`, and beside it `when` (by argument, or by JSON pointer: a glob
    over its text, a value, `{"below": 100}`, `{"one_of": […]}`, `{"matches": "…"}`, or a list with one of these for each element), a
    `reason`, which is recorded, and `shell`. A glob with a wildcard lets only plain words through, unless the rule says `"shell": True`:
    `git *` is no yes to `git status; rm -r .`. As a configured answer does, a rule answers also what only a person may be asked.

    Where no rule holds, `otherwise` is asked, and is recorded as who that is; without it, it is as if nobody was attached.

    Args:
        rules: What is answered, by key.
        name: What the policy is called; recorded.
        otherwise: Who is asked where no rule holds.

    Raises:
        ConfigError: A key or a rule is not one.
    """

    by: Literal["user", "policy"] = "policy"

    def __init__(self, rules: Mapping[str, object], *, name: str = "rules", otherwise: Prompter | None = None) -> None:
        self.name = name
        self.concurrent = otherwise is None or otherwise.concurrent
        self._rules = {_key(key): read_rules(f"rules[{key!r}]", given) for key, given in rules.items()}
        self._otherwise = otherwise

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
        if prompt.kind == "review":  # what is reviewed are the answers of rules, unless there is a person
            return Submitted() if self._otherwise is None else None
        rule = self._rule(prompt)
        return Answered(rule.answer, reason=rule.reason) if rule else None

    def _rule(self, prompt: Prompt) -> Rule | None:
        tool, question = prompt.tool, prompt.question.id
        keys = [(tool, question)] if question in _APPROVALS else [(tool, question), (tool, "*"), ("*", question), ("*", "*")]
        return next((rule for key in keys if (rule := first_that_holds(self._rules.get(key, ()), prompt.arguments))), None)


def _key(key: str) -> tuple[str, str]:
    tool, dot, question = key.partition(".")
    if not (dot and tool and question):
        raise ConfigError(f"rules[{key!r}]: a rule is named `<tool>.<question>`; `*` stands for any tool, or for any question of one.")
    return tool, question
