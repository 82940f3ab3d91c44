"""Trust in a workspace's files: their effect before the user has approved them, and after."""

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

# ----------------------------------------------------------------------------------------------------------------------
# Keys allowed to unapproved files: those that describe or tighten, nothing else
# This is the one list. A key that is not on it has no effect from there; a new key is untrusted until it is added here.


LABEL: Final = 64
"""Characters of an unapproved label."""


class AllowedIf(Struct, frozen=True):
    """A condition on a value: `allows` is given it and the one that holds without it.

    `allowed` says the same in words, `otherwise` what another value would do.
    """

    allows: Callable[[Json, Json], bool]
    allowed: str
    otherwise: str = ""


def _later(otherwise: str, *order: tuple[str, ...]) -> AllowedIf:
    """Allow what comes later in this order than what holds."""
    rank: dict[Json, int] = {name: place for place, names in enumerate(order) for name in names}
    return AllowedIf(lambda value, standing: rank.get(value, -1) > rank.get(standing, -1), "a stricter one", otherwise)


def _smaller(otherwise: str) -> AllowedIf:
    """Allow numbers below the one that holds; any where there is none."""
    return AllowedIf(_is_less, "a smaller one", otherwise)


def _only(wanted: bool, otherwise: str) -> AllowedIf:  # noqa: FBT001 (the value that is allowed)
    return AllowedIf(lambda value, _: value is wanted, f"`{str(wanted).lower()}`", otherwise)


def _is_less(value: Json, standing: Json) -> bool:
    return isinstance(value, int | float) and (standing is None or (isinstance(standing, int | float) and value < standing))


def _is_short(value: Json, _: Json) -> bool:
    return isinstance(value, str) and len(value) <= LABEL


def _only_stops(value: Json, _: Json) -> bool:
    """Whether rules let nothing run, and put nothing to people of their own choice."""
    rules = [cast("Mapping[str, Any]", rule) for rule in cast("Sequence[Json]", value)]
    return all(rule.get("run") != "unattended" and not any(key in rule for key in ABOUT_PEOPLE) for rule in rules)


_ANY = AllowedIf(lambda _value, _standing: True, "any")
_ASKING = (("unattended",), ("ask", "edit"), ("skip",))
_DETACHED = _later("goes on without a human", ("auto",), ("defaults",), ("defer",), ("deny",))
_LIMIT = _smaller("raises a limit")
_LIMITS = (
    "question", "context", "options", "form", "shown", "repeats", "rejected_cycles", "cycles", "seconds", "tool_output", "batch",
    "json_depth", "event_line",
)  # fmt: skip
_PARAMETERS_KEY = (
    "temperature", "top_p", "top_k", "max_tokens", "seed", "stop_sequences", "presence_penalty", "frequency_penalty", "thinking",
)  # fmt: skip
_TOOL = "conversation.tools.*"
_TIGHTENING = AllowedIf(_only_stops, "rules that ask or skip, where nothing stricter holds", "lets calls run, or sets who is asked")

RULES: Final[Mapping[str, AllowedIf]] = {
    "assistant.name": _ANY,
    "display.reasoning": _ANY,
    "prompt.mode": _ANY,
    "prompt.text_menu": _ANY,
    f"{_TOOL}.questions.*.prompt_label": AllowedIf(_is_short, f"up to {LABEL} characters", f"is longer than {LABEL} characters"),
    f"{_TOOL}.questions.*.exclusive": _only(True, "lets others than a human answer"),
    f"{_TOOL}.run": _later("asks less before a tool runs", *_ASKING),
    f"{_TOOL}.result": _later("asks less before a model reads a result", *_ASKING),
    f"{_TOOL}.rules": _TIGHTENING,
    "agents.*.tools.*.rules": _TIGHTENING,
    f"{_TOOL}.detached.run": _DETACHED,
    f"{_TOOL}.detached.deliver": _DETACHED,
    f"{_TOOL}.detached.tool": _DETACHED,
    f"{_TOOL}.enable.state": _only(False, "offers a tool"),
    f"{_TOOL}.timeout": _smaller("gives a program more time"),
    **{f"limits.{name}": _LIMIT for name in _LIMITS},
    **{f"assistant.model.parameters.{name}": _ANY for name in _PARAMETERS_KEY},
}
"""By key, free names written as `*`."""


_IN_A_SENTENCE: Final = 2  # keys
_OTHER: Final = "changes what your own configuration says"


class Enabled(Struct, frozen=True):
    """One thing that a file does: the key as written, its value there and its line, and what it means (`runs a program`).

    `differs`: it is not what holds anyway.
    """

    key: str
    value: str
    place: str
    why: str
    differs: bool


class FileTrust(Struct, frozen=True, kw_only=True):
    """One workspace file that does something which needs approval; `name` is how messages call it."""

    subject: FileSubject
    name: str
    approved: bool
    enables: tuple[Enabled, ...]

    @property
    def notice(self) -> str | None:
        """Say what has no effect, by name; None where all of it holds anyway. Of several keys each stands in the line of what it does."""
        idle = [one for one in self.enables if one.differs]
        if not idle:
            return None
        if len(idle) <= _IN_A_SENTENCE:
            return f"{self.name} is not trusted, so {no_effect([one.key for one in idle])}."
        kinds = dict.fromkeys(one.why for one in idle)
        listed = [f"  {why}: {', '.join(one.key for one in idle if one.why == why)}" for why in kinds]
        return "\n".join([f"{self.name} is not trusted, so {len(idle)} keys have no effect:", *listed])


def no_effect(names: Sequence[str]) -> str:
    """Write the end of a sentence: which keys have no effect."""
    keys = ", ".join(f"`{name}`" for name in names)
    return f"{keys} {'has' if len(names) == 1 else 'have'} no effect"


class NeedsTrust(Struct, frozen=True):
    """One value that needs approval, and what it would do."""

    path: KeyPath
    entry: TreeEntry
    why: str
    differs: bool


def waiting(tree: Tree, below: Tree) -> tuple[NeedsTrust, ...]:
    """Find what a layer must not do unasked; `below` holds the layers beneath it."""
    return tuple(_walk(tree, _At(KEYS), below))


class _At(Struct, frozen=True):
    """Position of a walk: the node, the path to it, the same with free names as `*`, and what the tables on the way do."""

    node: Node
    path: KeyPath = ()
    pattern: tuple[str, ...] = ()
    why: str = ""

    def child(self, name: str) -> _At:
        is_free = not isinstance(self.node, Branch) or name not in self.node.keys
        node = self.node.child(name) if isinstance(self.node, Branch) else self.node
        pattern = "*" if is_free and self.pattern != _PARAMETERS else name
        return _At(node, (*self.path, name), (*self.pattern, pattern), node.why or self.why)


_PARAMETERS: Final = ("assistant", "model", "parameters")


def _walk(tree: Tree, at: _At, below: Tree) -> Iterator[NeedsTrust]:
    for name, found in tree.items():
        here = at.child(name)
        if isinstance(found, dict):
            yield from _walk(found, here, below)
            continue
        standing = _standing(below, here.path)
        same = standing is not None and standing == found.value and type(standing) is type(found.value)
        rule = RULES.get(".".join(here.pattern))
        if same or rule is None or not rule.allows(found.value, standing) or _is_locked(below, here.path):
            loosens = rule.otherwise if rule and not same else ""
            yield NeedsTrust(here.path, found, loosens or here.why or _OTHER, not same)


def _standing(below: Tree, path: KeyPath) -> Json:
    """Return the value that holds without the layer: for a tool its own, or else that of `'*'`."""
    found = entry(below, *path)
    if found is None and path[:2] == _TOOLS:
        found = entry(below, *path[:2], "*", *path[3:])
    return found.value if found else None


def _is_locked(below: Tree, path: KeyPath) -> bool:
    """Say whether this would switch a tool that its user has locked as it is."""
    return path[:2] == _TOOLS and path[3:] == ("enable", "state") and _standing(below, (*path[:-1], "allow_toggle")) == "never"


_TOOLS: Final = ("conversation", "tools")


def restrained(merged: Tree, kept: Tree, below: Tree) -> Tree:
    """Return all layers merged, where the user's own later word on every tool is not softened by what a file said of one.

    A tool's own entry comes before that of `'*'`. So where `kept`, from an unapproved file, tightens one tool, and the
    user then tightens all of them further than that, the user's word is taken for that tool, too. `below` is what held before.
    """
    for path, one in entries(branch(kept, *_TOOLS), _TOOLS):
        everybody = (*_TOOLS, "*", *path[3:])
        star = entry(merged, *everybody)
        rule = RULES.get(".".join(everybody))
        if star is None or rule is None or path[2] == "*" or entry(merged, *path) is not one:
            continue
        is_later = star is not entry(below, *everybody) and star is not entry(kept, *everybody)
        if is_later and rule.allows(star.value, one.value):
            merged = merge(merged, _nested(path, star), KEYS)
    return merged


def _nested(path: KeyPath, leaf: TreeEntry) -> Tree:
    tree: Tree = {path[-1]: leaf}
    for name in reversed(path[:-1]):
        tree = {name: tree}
    return tree


def tightening(tree: Tree) -> Tree:
    """Return a layer whose file is not approved: its rules are heard only where they are stricter than all others."""
    return {
        name: tightening(found) if isinstance(found, dict) else replace(found, origin=replace(found.origin, approved=False))
        for name, found in tree.items()
    }


def without(tree: Tree, weak: tuple[NeedsTrust, ...]) -> Tree:
    """Return the layer with these values left out, and the tables that held nothing else."""
    return _without(tree, {one.path for one in weak}, ())


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


def enabled(weak: tuple[NeedsTrust, ...]) -> tuple[Enabled, ...]:
    """Describe each value once, under the key that is written."""
    found: dict[KeyPath, Enabled] = {}
    for one in weak:
        known = found.get(one.entry.at)
        if known is None or (one.differs and not known.differs):
            value = json.dumps(one.entry.value, ensure_ascii=False)
            found[one.entry.at] = Enabled(dotted(one.entry.at), value, one.entry.place, one.why, one.differs)
    return tuple(found.values())
