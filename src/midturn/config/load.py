"""The one way from files, environment and flags to settings: the layers, lowest first, each read from where it stands."""

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
from midturn.config.places import Document, project_of, read_document, shown, state_directory, user_config_file
from midturn.config.resolve import Resolving, resolve
from midturn.config.settings import AssistantSettings, DisplaySettings, Settings, Toggle, UserSettings, WebSettings
from midturn.config.tree import BUILT_IN, KeyPath, Origin, Tree, branch, dotted, entries, entry, merge
from midturn.config.trust import FileTrust, NeedsTrust, enabled, restrained, tightening, waiting, without
from midturn.errors import ConfigError
from midturn.question.json_value import DEFAULT_LIMITS, Json, overlay
from midturn.question.text import ASK_USER, BUILT_IN_TOOLS, DESCRIBE_TOOLS
from midturn.routing.policy import DetachedPolicies
from midturn.terminal.prompts.settings import ScreenSettings

WORKSPACE = ".midturn"
RECORDED = "recorded"
"""Prefix of the names of layers with flags of an earlier process."""
_STORE = ("conversation", "store")
_PROJECTS = "projects"
_OWN = frozenset({"built-in", "user", "environment"})
_ONLY_YOURS = "only your own configuration file has rules for single projects; move them to {}"
_WHOSE = "only your own configuration, or MIDTURN_CFG_CONVERSATION__STORE, says where conversations are; a command takes `--store`"


class Layer(Struct, frozen=True):
    """One layer: its name in `config explain`, and its values."""

    name: str
    tree: Tree


class Layers:
    """Collects layers from the lowest up; problems of all of them are kept for one error at the end.

    `parts` are the single files, variables and flags: rules of each count, where of a value the highest one holds.
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
        """Lay one layer on top; its parts are laid over each other, the later ones higher."""
        tree = overlay(*parts)
        named = entry(tree, *_STORE)
        if named and name not in _OWN:
            self.problems.append(f"{named.place}: `{dotted(_STORE)}`: {_WHOSE}")
        if name != "user" and (rule := next((found for _, found in entries(branch(tree, _PROJECTS))), None)):
            self.problems.append(f"{rule.place}: `{_PROJECTS}`: {_ONLY_YOURS.format(shown(user_config_file()))}")
        if tree:
            self.stack.append(Layer(name, tree))
            self.parts += parts
            self.merged = merge(self.merged, tree, KEYS)

    def user(self, file: Path, project: str) -> None:
        """Read the user's own file, with the rules in it for the project in this directory."""
        document = self._document(file, shown(file), follow=True)
        if document is not None:
            tree = self._tree(document, (str(file.parent),))
            self.add("user", tree)
            self.add("project", _of_project(branch(tree, _PROJECTS, project)))

    def workspace(self, root: Path, approvals: Approvals) -> None:
        """Read `.midturn/config.toml` and `config.d/*.toml`; what is not approved and needs to be is left out."""
        directory = root.resolve() / WORKSPACE
        bases = (str(directory), str(directory.parent))
        parts: list[Tree] = []
        for file in self._workspace_files(directory):
            document = self._document(file, f"{WORKSPACE}/{file.relative_to(directory)}", follow=False)
            if document is not None:
                tree = self._tree(document, (str(file.parent), *bases), in_workspace=True)
                parts.append(self._allowed(document, tree, overlay(*parts), approvals))
        self._below = self.merged
        self.add("workspace", *parts)

    def tighten(self) -> None:
        """Let what the user says of every tool hold for those, too, that an unapproved file tightened less."""
        self.merged = restrained(self.merged, overlay(*self._unapproved), self._below)

    def assigned(self, name: str, assignments: Iterable[Assignment]) -> None:
        """Lay values from flags or variables on top, as one layer."""
        self.add(name, *self._assigned(assignments))

    def recorded(self, delta: Delta) -> None:
        """Lay what the flags of an earlier process set for this conversation on top."""
        self.assigned(f"{RECORDED} --cfg", delta.cfg)
        self.assigned(f"{RECORDED} flags", delta.flags)

    def file(self, name: str, cwd: Path) -> Assignment:
        """Read a file that a flag names."""
        path = cwd / name
        document = read_document(path, name, follow=True)
        if document is None:
            raise ConfigError(f"--cfg {name}: no such file; a single value is written KEY=VALUE")
        self._texts[name] = document.text
        return Assignment("", document.values, name, str(path.parent))

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Keep a problem and go on, so that all are reported at once."""
        try:
            yield
        except ConfigError as error:
            self.problems.append(str(error))

    def _assigned(self, assignments: Iterable[Assignment]) -> list[Tree]:
        found: list[Tree] = []
        for given in assignments:
            with self.collecting():
                found.append(self._checked(Origin(given.origin, self._texts.get(given.origin), (given.base,)), given.document()))
        return found

    def _document(self, file: Path, name: str, *, follow: bool) -> Document | None:
        with self.collecting():
            return read_document(file, name, follow=follow)
        return None

    def _tree(self, document: Document, bases: tuple[str, ...], *, in_workspace: bool = False) -> Tree:
        return self._checked(Origin(document.name, document.text, bases, in_workspace=in_workspace), document.values)

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
                    raise ConfigError(f"{name}: a symbolic link; a workspace must hold the directory itself")
            found = _listed(extra, lambda file: file.suffix == ".toml" and not file.name.startswith("."))
        return [directory / "config.toml", *found]

    def _allowed(self, document: Document, tree: Tree, earlier: Tree, approvals: Approvals) -> Tree:
        """Return what of a file has effect; `earlier` is what the workspace's files before it set."""
        weak = waiting(tree, merge(self.merged, earlier, KEYS))
        if not weak:
            return self._tightening(tree)
        root = document.path.parents[len(Path(document.name).parts) - 1]

        subject = FileSubject(path=document.path, root=root, sha256=sha256(document.data), scripts=scripts(tree, root))
        file = FileTrust(subject=subject, name=document.name, approved=approvals.approved(subject), enables=enabled(weak))
        self.files.append(file)
        if file.approved:
            return tree
        if file.notice:
            self.ignored.append(file.notice)
        self._withhold(weak)
        return self._tightening(without(tree, weak))

    def _tightening(self, tree: Tree) -> Tree:
        kept = tightening(tree)
        self._unapproved.append(kept)
        return kept

    def _withhold(self, weak: tuple[NeedsTrust, ...]) -> None:
        self.withheld.update(one.path for one in weak)


def _of_project(tree: Tree) -> Tree:
    """Return the rules for one project as a layer."""
    tools, agents = branch(tree, "tools"), branch(tree, "agents")
    return {**({"conversation": {"tools": tools}} if tools else {}), **({"agents": agents} if agents else {})}


def _listed(directory: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    try:
        return sorted(file for file in directory.iterdir() if wanted(file))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{WORKSPACE}/{directory.name}: cannot be read: {error.strerror}") from error


# ----------------------------------------------------------------------------------------------------------------------
# The lowest layer: defaults, built-in tools included


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
    DESCRIBE_TOOLS: {**_UNATTENDED, "enable": {"state": True, "allow_toggle": "never"}, "hidden": True},
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
            "assistant": _given(AssistantSettings()),
            "conversation": {"tools": {"*": _ANY_TOOL, **BUILT_IN_SETTINGS}},
            "limits": _given(DEFAULT_LIMITS),
            "prompt": _given(ScreenSettings()),
            "display": _given(DisplaySettings()),
            "user": _given(UserSettings()),
            "web": _given(WebSettings()),
        }
    )
    if checker.problems:
        raise AssertionError(checker.problems)
    return tree


def _given(settings: msgspec.Struct) -> dict[str, Any]:
    return _without_none(msgspec.to_builtins(settings))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


class LoadRequest(Struct, frozen=True, kw_only=True):
    """Layers to read.

    `root` is the workspace (None: there is none), `cwd` where the command was given, `cfg` each `--cfg` in order, `flags` what other
    flags set, `toggles` each `-t` and `-T`, `recorded` the value of each `config_delta` of the conversation, oldest first. `resumed` is
    what holds where a turn is resumed with no one attached, unless `recorded` says otherwise.
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
        """The directory that rules for a project name."""
        return project_of(self.root or self.cwd)


class Loaded(Struct, frozen=True, kw_only=True):
    """The settings, and how they came about.

    `ignored` says, a sentence a file, what has no effect until it is trusted: with no one attached, that is exit status 2.
    `files` are the workspace files that need approval, given or not. `given` is what this command's flags set: `to_record` makes
    a `config_delta` of it.
    """

    settings: Settings
    layers: tuple[Layer, ...]
    merged: Tree
    ignored: tuple[str, ...] = ()
    files: tuple[FileTrust, ...] = ()
    given: Delta = Delta()


def load(request: LoadRequest) -> Loaded:
    """Read every layer, lowest first: built-in, user, workspace, environment, recorded flags, `--cfg`, flags.

    Raises:
        ConfigError: Something is wrong; the message has a line for each problem, with file and line, key, and what is allowed.
    """
    layers = Layers(Layer("built-in", built_in_layer()))
    _files(layers, request)
    layers.assigned("environment", _based(environment_values(request.environment), request.cwd))
    layers.assigned("resumed", request.resumed)
    recorded = [delta for delta in map(read_delta, request.recorded) if delta is not None]
    given = Delta(cfg=tuple(_cfg(layers, request)), flags=tuple(_based(request.flags, request.cwd)), toggles=tuple(request.toggles))
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
    return Resolving(layers.merged, frozenset(layers.withheld), layers.problems, tuple(layers.parts), root)


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
            yield replace(assignment, base=str(request.cwd)) if assignment else layers.file(text, request.cwd)


def _based(assignments: Iterable[Assignment], cwd: Path) -> list[Assignment]:
    return [replace(assignment, base=str(cwd)) for assignment in assignments]
