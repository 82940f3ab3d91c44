"""Loads the configuration: reads all layers from files, environment variables and flags, and
resolves them into settings.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.config.approvals import Approvals, FileSubject, scripts, sha256
from midturn.config.assign import Assignment, Delta, environment_values, key_value, read_delta
from midturn.config.check import Checker
from midturn.config.keys import KEYS
from midturn.config.places import (
    Document,
    project_of,
    read_document,
    shown,
    state_directory,
    user_config_file,
)
from midturn.config.resolve import Resolving, resolve
from midturn.config.settings import (
    AssistantSettings,
    DisplaySettings,
    Settings,
    Toggle,
    UserSettings,
    WebSettings,
)
from midturn.config.tree import (
    BUILT_IN,
    KeyPath,
    Origin,
    Tree,
    branch,
    dotted,
    entries,
    entry,
    merge,
)
from midturn.config.trust import (
    FileTrust,
    NeedsTrust,
    enabled,
    needing_trust,
    restrained,
    tightening,
    without,
)
from midturn.errors import ConfigError
from midturn.question.json_value import DEFAULT_LIMITS, Json, overlay
from midturn.question.text import ASK_USER, BUILT_IN_TOOLS, DESCRIBE_TOOLS
from midturn.routing.policy import DetachedPolicies
from midturn.terminal.prompts.settings import ScreenSettings

WORKSPACE = ".midturn"
RECORDED = "recorded"
"""Name prefix of the layers that contain the recorded flags of earlier commands."""
_STORE = ("conversation", "store")
_PROJECTS = "projects"
_USER_LAYERS = frozenset({"built-in", "user", "environment"})
_PROJECTS_MISPLACED = (
    "rules for single projects are only allowed in your own configuration; move them to {}"
)
_STORE_MISPLACED = (
    "only your own configuration or MIDTURN_CFG_CONVERSATION__STORE can set the store; for one"
    " command, use `--store`"
)


class Layer(Struct, frozen=True):
    """A layer: its name in `config explain`, and its values."""

    name: str
    tree: Tree


class Layers:
    """Merges layers from the lowest to the highest, and collects their errors, which are raised
    together at the end.

    `parts` lists each file, variable and flag separately. The approval rules in all parts apply.
    For other keys, the value in the highest part applies.
    """

    def __init__(self, lowest: Layer) -> None:
        self.stack = [lowest]
        self.parts = [lowest.tree]
        self.merged = lowest.tree
        self.problems: list[str] = []
        self.files: list[FileTrust] = []
        self.withheld: set[KeyPath] = set()
        self.ignored: list[str] = []
        self._texts: dict[str, str] = {}
        self._below: Tree = {}
        self._unapproved: list[Tree] = []

    def add(self, name: str, *parts: Tree) -> None:
        """Add a layer on top. Its parts are merged, later parts over earlier parts."""
        tree = overlay(*parts)
        named = entry(tree, *_STORE)
        if named and name not in _USER_LAYERS:
            self.problems.append(f"{named.place}: `{dotted(_STORE)}`: {_STORE_MISPLACED}")
        if name != "user" and (
            rule := next((found for _, found in entries(branch(tree, _PROJECTS))), None)
        ):
            self.problems.append(
                f"{rule.place}: `{_PROJECTS}`:"
                f" {_PROJECTS_MISPLACED.format(shown(user_config_file()))}"
            )
        if tree:
            self.stack.append(Layer(name, tree))
            self.parts += parts
            self.merged = merge(self.merged, tree, KEYS)

    def user(self, file: Path, project: str) -> None:
        """Read the user's own file, including its rules for the project in this directory."""
        document = self._document(file, shown(file), follow=True)
        if document is not None:
            tree = self._tree(document, (str(file.parent),))
            self.add("user", tree)
            self.add("project", _of_project(branch(tree, _PROJECTS, project)))

    def workspace(self, root: Path, approvals: Approvals) -> None:
        """Read `.midturn/config.toml` and `config.d/*.toml`.

        Values that need approval and are not approved are omitted.
        """
        directory = root.resolve() / WORKSPACE
        bases = (str(directory), str(directory.parent))
        parts: list[Tree] = []
        for file in self._workspace_files(directory):
            document = self._document(
                file, f"{WORKSPACE}/{file.relative_to(directory)}", follow=False
            )
            if document is not None:
                tree = self._tree(document, (str(file.parent), *bases), in_workspace=True)
                parts.append(self._allowed(document, tree, overlay(*parts), approvals))
        self._below = self.merged
        self.add("workspace", *parts)

    def tighten(self) -> None:
        """Apply the user's settings for `'*'` to a tool as well, if an unapproved file has less
        strict settings for this tool.
        """
        self.merged = restrained(self.merged, overlay(*self._unapproved), self._below)

    def assigned(self, name: str, assignments: Iterable[Assignment]) -> None:
        """Add the values of flags or variables as one layer."""
        self.add(name, *self._assigned(assignments))

    def recorded(self, delta: Delta) -> None:
        """Add the flags that an earlier command set for this conversation."""
        self.assigned(f"{RECORDED} --cfg", delta.cfg)
        self.assigned(f"{RECORDED} flags", delta.flags)

    def file(self, name: str, cwd: Path) -> Assignment:
        """Read a file passed with `--cfg`."""
        path = cwd / name
        document = read_document(path, name, follow=True)
        if document is None:
            raise ConfigError(f"--cfg {name}: no such file; to set a single value, use KEY=VALUE")
        self._texts[name] = document.text
        return Assignment("", document.values, name, str(path.parent))

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Collect a `ConfigError` raised in the block and continue, so that all errors are reported
        together.
        """
        try:
            yield
        except ConfigError as error:
            self.problems.append(str(error))

    def _assigned(self, assignments: Iterable[Assignment]) -> list[Tree]:
        found: list[Tree] = []
        for given in assignments:
            with self.collecting():
                found.append(
                    self._checked(
                        Origin(given.origin, self._texts.get(given.origin), (given.base,)),
                        given.document(),
                    )
                )
        return found

    def _document(self, file: Path, name: str, *, follow: bool) -> Document | None:
        with self.collecting():
            return read_document(file, name, follow=follow)
        return None

    def _tree(
        self, document: Document, bases: tuple[str, ...], *, in_workspace: bool = False
    ) -> Tree:
        return self._checked(
            Origin(document.name, document.text, bases, in_workspace=in_workspace), document.values
        )

    def _checked(self, origin: Origin, values: Mapping[str, Any]) -> Tree:
        checker = Checker(origin)
        tree = checker.read(values)
        self.problems += checker.problems
        self.withheld |= checker.wrong
        return tree

    def _workspace_files(self, directory: Path) -> list[Path]:
        extra = directory / "config.d"
        found: list[Path] = []
        with self.collecting():
            for own in (directory, extra):
                if own.is_symlink():
                    name = own.relative_to(directory.parent)
                    raise ConfigError(
                        f"{name}: is a symbolic link; a workspace must contain the directory itself"
                    )
            found = _listed(
                extra, lambda file: file.suffix == ".toml" and not file.name.startswith(".")
            )
        return [directory / "config.toml", *found]

    def _allowed(self, document: Document, tree: Tree, earlier: Tree, approvals: Approvals) -> Tree:
        """Return the part of a workspace file that takes effect.

        `earlier` contains the previous workspace files.
        """
        untrusted = needing_trust(tree, merge(self.merged, earlier, KEYS))
        if not untrusted:
            return self._tightening(tree)
        root = document.path.parents[len(Path(document.name).parts) - 1]

        subject = FileSubject(
            path=document.path, root=root, sha256=sha256(document.data), scripts=scripts(tree, root)
        )
        file = FileTrust(
            subject=subject,
            name=document.name,
            approved=approvals.approved(subject),
            enables=enabled(untrusted),
        )
        self.files.append(file)
        if file.approved:
            return tree
        if file.notice:
            self.ignored.append(file.notice)
        self._withhold(untrusted)
        return self._tightening(without(tree, untrusted))

    def _tightening(self, tree: Tree) -> Tree:
        kept = tightening(tree)
        self._unapproved.append(kept)
        return kept

    def _withhold(self, untrusted: tuple[NeedsTrust, ...]) -> None:
        self.withheld.update(value.path for value in untrusted)


def _of_project(tree: Tree) -> Tree:
    """Return the rules for one project as a layer."""
    tools, agents = branch(tree, "tools"), branch(tree, "agents")
    return {
        **({"conversation": {"tools": tools}} if tools else {}),
        **({"agents": agents} if agents else {}),
    }


def _listed(directory: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    try:
        return sorted(file for file in directory.iterdir() if wanted(file))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(
            f"{WORKSPACE}/{directory.name}: cannot be read: {error.strerror}"
        ) from error


# --------------------------------------------------------------------------------------------------
# The lowest layer: defaults and built-in tools


_UNATTENDED = {"source": "builtin", "run": "unattended", "result": "unattended"}
_ASKED = {"source": "builtin", "run": "ask", "result": "unattended"}

BUILT_IN_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(BUILT_IN_TOOLS, _UNATTENDED),
    **dict.fromkeys(("fs_create_file", "fs_delete_file", "fs_move_file"), _ASKED),
    ASK_USER: {
        **_UNATTENDED,
        "enable": {"state": True, "allow_toggle": "if_named"},
        "hidden": True,
        "questions": {"*": {"prompt_label": "Assistant"}},
    },
    DESCRIBE_TOOLS: {
        **_UNATTENDED,
        "enable": {"state": True, "allow_toggle": "never"},
        "hidden": True,
    },
}

_ANY_TOOL: dict[str, Any] = {
    "run": "ask",
    "result": "unattended",
    "detached": msgspec.to_builtins(DetachedPolicies()),
    "enable": {"state": True, "allow_toggle": "any"},
    "hidden": False,
    "style": "line",
}


@cache
def built_in_layer() -> Tree:
    """Return the defaults as a layer."""
    checker = Checker(BUILT_IN)
    tree = checker.read(
        {
            "assistant": _as_table(AssistantSettings()),
            "conversation": {"tools": {"*": _ANY_TOOL, **BUILT_IN_SETTINGS}},
            "limits": _as_table(DEFAULT_LIMITS),
            "prompt": _as_table(ScreenSettings()),
            "display": _as_table(DisplaySettings()),
            "user": _as_table(UserSettings()),
            "web": _as_table(WebSettings()),
        }
    )
    if checker.problems:
        raise AssertionError(checker.problems)
    return tree


def _as_table(settings: msgspec.Struct) -> dict[str, Any]:
    return _without_none(msgspec.to_builtins(settings))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


class LoadRequest(Struct, frozen=True, kw_only=True):
    """The layers to read.

    Args:
        root: The workspace, or None.
        cwd: Working directory of the command.
        cfg: The values of `--cfg`, in order.
        flags: Values of other flags.
        toggles: The `-t` and `-T` flags, in order.
        recorded: Values of the `config_delta` events of the conversation, oldest first.
        resumed: Settings for a turn that is resumed while no person is attached. `recorded` has
            precedence.
    """

    cwd: Path
    root: Path | None = None
    environment: Mapping[str, str] = {}
    cfg: Sequence[str] = ()
    flags: Sequence[Assignment] = ()
    toggles: Sequence[Toggle] = ()
    recorded: Sequence[Json] = ()
    resumed: Sequence[Assignment] = ()
    user_file: Path = msgspec.field(default_factory=user_config_file)
    state: Path = msgspec.field(default_factory=state_directory)

    @property
    def project(self) -> str:
        """The directory of the project whose rules apply."""
        return project_of(self.root or self.cwd)


class Loaded(Struct, frozen=True, kw_only=True):
    """The settings and their origins.

    `ignored` contains one message per file whose settings have no effect until the user trusts the
    file. Without an attached person, such a message causes exit status 2. `files` contains the
    workspace files that need approval, including the approved ones. `given` contains the flags of
    this command; `to_record` converts them to a `config_delta`.
    """

    settings: Settings
    layers: tuple[Layer, ...]
    merged: Tree
    ignored: tuple[str, ...] = ()
    files: tuple[FileTrust, ...] = ()
    given: Delta = Delta()


def load(request: LoadRequest) -> Loaded:
    """Read all layers, lowest first: built-in, user, workspace, environment, recorded flags,
    `--cfg`, flags.

    Raises:
        ConfigError: The configuration is invalid. The message has one line per error: the file and
            line, the key, and the allowed values.
    """
    layers = Layers(Layer("built-in", built_in_layer()))
    _files(layers, request)
    layers.assigned("environment", _based(environment_values(request.environment), request.cwd))
    layers.assigned("resumed", request.resumed)
    recorded = [delta for delta in map(read_delta, request.recorded) if delta is not None]
    given = Delta(
        cfg=tuple(_cfg(layers, request)),
        flags=tuple(_based(request.flags, request.cwd)),
        toggles=tuple(request.toggles),
    )
    for delta in recorded:
        layers.recorded(delta)
    layers.assigned("--cfg", given.cfg)
    layers.assigned("flags", given.flags)
    layers.tighten()
    toggles = tuple(toggle for delta in recorded for toggle in delta.toggles)
    settings = resolve(_resolving(layers, request), (*toggles, *given.toggles))
    if layers.problems:
        raise ConfigError("\n".join(layers.problems))
    return Loaded(
        settings=settings,
        layers=tuple(layers.stack),
        merged=layers.merged,
        ignored=tuple(layers.ignored),
        files=tuple(layers.files),
        given=given,
    )


def _resolving(layers: Layers, request: LoadRequest) -> Resolving:
    root = request.root or request.cwd
    return Resolving(
        layers.merged, frozenset(layers.withheld), layers.problems, tuple(layers.parts), root
    )


def _files(layers: Layers, request: LoadRequest) -> None:
    layers.user(request.user_file, request.project)
    with layers.collecting():
        approvals = Approvals.of(request.state, request.environment)
        if request.root is not None:
            layers.workspace(request.root, approvals)


def _cfg(layers: Layers, request: LoadRequest) -> Iterator[Assignment]:
    for text in request.cfg:
        with layers.collecting():
            assignment = key_value(text, "--cfg")
            yield (
                replace(assignment, base=str(request.cwd))
                if assignment
                else layers.file(text, request.cwd)
            )


def _based(assignments: Iterable[Assignment], cwd: Path) -> list[Assignment]:
    return [replace(assignment, base=str(cwd)) for assignment in assignments]
