"""Decides which workspace settings apply before the user has approved their file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.config.approvals import FileSubject
from midturn.config.keys import KEYS, Branch, Node
from midturn.config.tree import KeyPath, Tree, TreeEntry, branch, dotted, entries, entry, merge
from midturn.question.json_value import Json
from midturn.routing.rules import ABOUT_PEOPLE

# --------------------------------------------------------------------------------------------------
# Settings that unapproved files may change, because they only describe or restrict something.
# A key that is not listed has no effect in an unapproved file. New keys are therefore untrusted
# until they are added here.


MAX_LABEL_LENGTH: Final = 64
"""Maximum length of an unapproved label, in characters."""


class AllowedIf(Struct, frozen=True):
    """A condition on a value in an unapproved file.

    Args:
        allows: Receives the value, and the value that applies without the file. Returns whether the
            value is allowed.
        allowed: The condition in words.
        otherwise: Effect of a value that is not allowed, in words, such as `enables a tool`.
    """

    allows: Callable[[Json, Json], bool]
    allowed: str
    otherwise: str = ""


def _later(otherwise: str, *order: tuple[str, ...]) -> AllowedIf:
    """Allow values that are later in `order` than the current value."""
    rank: dict[Json, int] = {name: index for index, names in enumerate(order) for name in names}
    return AllowedIf(
        lambda value, current: rank.get(value, -1) > rank.get(current, -1),
        "a stricter one",
        otherwise,
    )


def _smaller(otherwise: str) -> AllowedIf:
    """Allow numbers below the current value, or any number if there is no current value."""
    return AllowedIf(_is_less, "a smaller one", otherwise)


def _only(wanted: bool, otherwise: str) -> AllowedIf:  # noqa: FBT001 the allowed value
    return AllowedIf(lambda value, _: value is wanted, f"`{str(wanted).lower()}`", otherwise)


def _is_less(value: Json, current: Json) -> bool:
    return isinstance(value, int | float) and (
        current is None or (isinstance(current, int | float) and value < current)
    )


def _is_short(value: Json, _: Json) -> bool:
    return isinstance(value, str) and len(value) <= MAX_LABEL_LENGTH


def _only_restricts(value: Json, _: Json) -> bool:
    """Return whether all rules only restrict.

    Such a rule lets no call run unattended and selects no people to ask.
    """
    rules = [cast("Mapping[str, Any]", rule) for rule in cast("Sequence[Json]", value)]
    return all(
        rule.get("run") != "unattended" and not any(key in rule for key in ABOUT_PEOPLE)
        for rule in rules
    )


_ANY = AllowedIf(lambda _value, _current: True, "any")
_ASKING = (("unattended",), ("ask", "edit"), ("skip",))
_DETACHED = _later("continues without a human", ("auto",), ("defaults",), ("defer",), ("deny",))
_LIMIT = _smaller("raises a limit")
_LIMITS = (
    "question", "context", "options", "form", "shown", "repeats", "rejected_cycles", "cycles", "seconds", "tool_output", "batch",
    "json_depth", "event_line",
)  # fmt: skip
_MODEL_PARAMETERS = (
    "temperature", "top_p", "top_k", "max_tokens", "seed", "stop_sequences", "presence_penalty", "frequency_penalty", "thinking",
)  # fmt: skip
_TOOL = "conversation.tools.*"
_TIGHTENING = AllowedIf(
    _only_restricts,
    "rules that ask or skip, if no stricter rule applies",
    "lets calls run, or sets who is asked",
)

RULES: Final[Mapping[str, AllowedIf]] = {
    "assistant.name": _ANY,
    "display.reasoning": _ANY,
    "prompt.mode": _ANY,
    "prompt.text_menu": _ANY,
    f"{_TOOL}.questions.*.prompt_label": AllowedIf(
        _is_short,
        f"up to {MAX_LABEL_LENGTH} characters",
        f"is longer than {MAX_LABEL_LENGTH} characters",
    ),
    f"{_TOOL}.questions.*.exclusive": _only(True, "lets models and policies answer"),
    f"{_TOOL}.run": _later("asks less before a tool runs", *_ASKING),
    f"{_TOOL}.result": _later("asks less before a model reads a result", *_ASKING),
    f"{_TOOL}.rules": _TIGHTENING,
    "agents.*.tools.*.rules": _TIGHTENING,
    f"{_TOOL}.detached.run": _DETACHED,
    f"{_TOOL}.detached.deliver": _DETACHED,
    f"{_TOOL}.detached.tool": _DETACHED,
    f"{_TOOL}.enable.state": _only(False, "enables a tool"),
    f"{_TOOL}.timeout": _smaller("gives a program more time"),
    **{f"limits.{name}": _LIMIT for name in _LIMITS},
    **{f"assistant.model.parameters.{name}": _ANY for name in _MODEL_PARAMETERS},
}
"""Conditions under which an unapproved file may set a value, by key. `*` matches a user-defined
name.
"""


_MAX_KEYS_IN_SENTENCE: Final = 2
_OTHER_EFFECT: Final = "overrides your own configuration"


class Enabled(Struct, frozen=True):
    """One effect of a file: the key as written, its value and line, and the effect in words
    (`runs a program`).

    `differs` is false if the value also applies without the file.
    """

    key: str
    value: str
    place: str
    why: str
    differs: bool


class FileTrust(Struct, frozen=True, kw_only=True):
    """A workspace file that needs approval. `name` is its name in messages."""

    subject: FileSubject
    name: str
    approved: bool
    enables: tuple[Enabled, ...]

    @property
    def notice(self) -> str | None:
        """A message that lists the settings without effect.

        None if all settings also apply without the file. If there are many keys, they are grouped
        by effect.
        """
        ineffective = [setting for setting in self.enables if setting.differs]
        if not ineffective:
            return None
        if len(ineffective) <= _MAX_KEYS_IN_SENTENCE:
            return (
                f"{self.name} is not trusted, so"
                f" {no_effect([setting.key for setting in ineffective])}."
            )
        kinds = dict.fromkeys(setting.why for setting in ineffective)
        listed = [
            f"  {why}: {', '.join(setting.key for setting in ineffective if setting.why == why)}"
            for why in kinds
        ]
        return "\n".join(
            [f"{self.name} is not trusted, so {len(ineffective)} keys have no effect:", *listed]
        )


def no_effect(names: Sequence[str]) -> str:
    """Return the end of a sentence that says which keys have no effect."""
    keys = ", ".join(f"`{name}`" for name in names)
    return f"{keys} {'has' if len(names) == 1 else 'have'} no effect"


class NeedsTrust(Struct, frozen=True):
    """A value that needs approval, and its effect."""

    path: KeyPath
    entry: TreeEntry
    why: str
    differs: bool


def needing_trust(tree: Tree, below: Tree) -> tuple[NeedsTrust, ...]:
    """Return the values of a layer that need approval.

    `below` contains the merged lower layers.
    """
    return tuple(_walk(tree, _At(KEYS), below))


class _At(Struct, frozen=True):
    """Position in a tree: the node, its path, the path with `*` instead of user-defined names, and
    the effect inherited from its tables.
    """

    node: Node
    path: KeyPath = ()
    pattern: tuple[str, ...] = ()
    why: str = ""

    def child(self, name: str) -> _At:
        is_free = not isinstance(self.node, Branch) or name not in self.node.keys
        node = self.node.child(name) if isinstance(self.node, Branch) else self.node
        pattern = "*" if is_free and self.pattern != _PARAMETERS_PATH else name
        return _At(node, (*self.path, name), (*self.pattern, pattern), node.why or self.why)


_PARAMETERS_PATH: Final = ("assistant", "model", "parameters")


def _walk(tree: Tree, at: _At, below: Tree) -> Iterator[NeedsTrust]:
    for name, found in tree.items():
        position = at.child(name)
        if isinstance(found, dict):
            yield from _walk(found, position, below)
            continue
        current = _current(below, position.path)
        same = current is not None and current == found.value and type(current) is type(found.value)
        rule = RULES.get(".".join(position.pattern))
        if (
            same
            or rule is None
            or not rule.allows(found.value, current)
            or _is_locked(below, position.path)
        ):
            loosens = rule.otherwise if rule and not same else ""
            yield NeedsTrust(
                position.path, found, loosens or position.why or _OTHER_EFFECT, not same
            )


def _current(below: Tree, path: KeyPath) -> Json:
    """Return the value that applies without the layer.

    For a tool, it is the tool's own value, or else the value of `'*'`.
    """
    found = entry(below, *path)
    if found is None and path[:2] == _TOOLS:
        found = entry(below, *path[:2], "*", *path[3:])
    return found.value if found else None


def _is_locked(below: Tree, path: KeyPath) -> bool:
    """Return whether the value would toggle a tool whose toggling the user has disabled."""
    return (
        path[:2] == _TOOLS
        and path[3:] == ("enable", "state")
        and _current(below, (*path[:-1], "allow_toggle")) == "never"
    )


_TOOLS: Final = ("conversation", "tools")


def restrained(merged: Tree, kept: Tree, below: Tree) -> Tree:
    """Return the merged layers, corrected so that an unapproved file cannot weaken a setting for
    all tools that the user made in a higher layer.

    A tool's own table has precedence over the table of `'*'`. If an unapproved file (`kept`)
    restricts one tool, and the user restricts all tools further in a higher layer, the user's
    setting must also apply to that tool. `below` contains the layers below the file.
    """
    for path, own in entries(branch(kept, *_TOOLS), _TOOLS):
        star_path = (*_TOOLS, "*", *path[3:])
        star = entry(merged, *star_path)
        rule = RULES.get(".".join(star_path))
        if star is None or rule is None or path[2] == "*" or entry(merged, *path) is not own:
            continue
        is_later = star is not entry(below, *star_path) and star is not entry(kept, *star_path)
        if is_later and rule.allows(star.value, own.value):
            merged = merge(merged, _nested(path, star), KEYS)
    return merged


def _nested(path: KeyPath, leaf: TreeEntry) -> Tree:
    tree: Tree = {path[-1]: leaf}
    for name in reversed(path[:-1]):
        tree = {name: tree}
    return tree


def tightening(tree: Tree) -> Tree:
    """Return a layer, marked as not approved.

    The rules of such a layer apply only if they are stricter than all other rules.
    """
    return {
        name: (
            tightening(found)
            if isinstance(found, dict)
            else replace(found, origin=replace(found.origin, approved=False))
        )
        for name, found in tree.items()
    }


def without(tree: Tree, untrusted: tuple[NeedsTrust, ...]) -> Tree:
    """Return the layer without these values, and without tables that become empty."""
    return _without(tree, {value.path for value in untrusted}, ())


def _without(tree: Tree, paths: set[KeyPath], path: KeyPath) -> Tree:
    kept: Tree = {}
    for name, found in tree.items():
        if isinstance(found, dict):
            rest = _without(found, paths, (*path, name))
            if rest or not found:
                kept[name] = rest
        elif (*path, name) not in paths:
            kept[name] = found
    return kept


def enabled(untrusted: tuple[NeedsTrust, ...]) -> tuple[Enabled, ...]:
    """Describe the effect of each value once, under the key as written."""
    found: dict[KeyPath, Enabled] = {}
    for item in untrusted:
        known = found.get(item.entry.at)
        if known is None or (item.differs and not known.differs):
            value = json.dumps(item.entry.value, ensure_ascii=False)
            found[item.entry.at] = Enabled(
                dotted(item.entry.at), value, item.entry.place, item.why, item.differs
            )
    return tuple(found.values())
