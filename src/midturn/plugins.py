"""Plug-ins: stores, agents, commands and tools that other packages add, found by their entry points.

A package declares them in its `pyproject.toml`, as `docs/guides/plug-ins.md` shows:

    [project.entry-points."midturn.stores"]
    memo = "midturn_memo:open_memo"

**Built-in names come first.** A package is looked for only where a name is not built in: so no package can take the place of a store, an
agent, a command or a tool that people know, and no command looks at what is installed to find one of ours.

**Nothing is loaded unasked.** Listing reads metadata alone. A module of a package is imported when its name was asked for: by a command
line, by a program, by a configuration file that its user has written or approved, or by `midturn doctor`, which says whether it works.

**A directory that a command is given in adds nothing.** `python -m` puts it on the path, and it may be a clone of anybody's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct

from midturn.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Kind: TypeAlias = Literal["store", "agent", "command", "tool", "channel"]
"""The kinds of plug-ins; their group of entry points is `midturn.stores`, and so on."""
_METADATA = (".dist-info", ".egg-info")


class Plugin(Struct, frozen=True):
    """An addition of a package, which is named with its version. One that cannot be read has no name."""

    entry: EntryPoint
    package: str

    @property
    def name(self) -> str:
        """The name that it is asked for by."""
        return self.entry.name

    @property
    def home(self) -> str:
        """The place where it is defined, as `module:name`."""
        return self.entry.value


class Registry(Struct, Generic[T], frozen=True, kw_only=True):
    """Everything of one kind that packages add.

    Args:
        kind: What one of them is called.
        built_in: The names that are ours.
        fits: Says whether what was loaded can be used under a name.
        ought: What it has to be, for the error where it cannot.
        shown: How a name is shown.
        besides: What there is besides, in a sentence for who named something that there is not.
        names: What a name looks like, as a regular expression.
    """

    kind: Kind
    built_in: Collection[str]
    fits: Callable[[object, str], bool]
    ought: str
    shown: str = "{}"
    besides: str = ""
    names: str = r"[a-z][a-z0-9-]*"

    @property
    def declared(self) -> tuple[Plugin, ...]:
        """All that packages declare, by name, with what cannot be used; nothing is imported."""
        return tuple(sorted(_declared(self.kind), key=lambda plugin: (plugin.name, plugin.package)))

    @property
    def added(self) -> dict[str, str]:
        """The packages, by the names that they add to what is built in; nothing is imported."""
        return {plugin.name: plugin.package for plugin in self.declared if not self._refusal(plugin)}

    def load(self, name: str) -> T:
        """Import what a package adds under a name that is not built in.

        Raises:
            ConfigError: No package adds it, or several do; or it cannot be imported or used, and the message names the package.
        """
        plugins = [plugin for plugin in self.declared if plugin.name == name and not self._refusal(plugin)]
        if not plugins:
            raise ConfigError(self._unknown(name))
        if len(plugins) > 1:
            packages = " and ".join(plugin.package for plugin in plugins)
            raise ConfigError(f"Several packages add the {self.kind} {self._shown(name)}: {packages}. Uninstall all but one.")
        return self._loaded(plugins[0])

    def problem(self, plugin: Plugin) -> str:
        """Say what is wrong with something that a package declares, which is imported for it; an empty text where it can be used."""
        if refusal := self._refusal(plugin):
            return refusal
        try:
            self.load(plugin.name)
        except ConfigError as error:
            return str(error)
        return ""

    def _loaded(self, plugin: Plugin) -> T:
        named = f"The {self.kind} {self._shown(plugin.name)} of {plugin.package}"
        try:
            loaded = cast("object", plugin.entry.load())
        except (Exception, SystemExit) as error:  # whatever the code of others does, the package is named
            raise ConfigError(
                f"{named} cannot be loaded ({type(error).__name__}: {error}). Update that package, or uninstall it."
            ) from error
        if not self.fits(loaded, plugin.name):
            raise ConfigError(f"{named} cannot be used: `{plugin.home}` is not {self.ought}. Update that package, or uninstall it.")
        return cast("T", loaded)

    def _refusal(self, plugin: Plugin) -> str:
        if not plugin.name:
            return f"The entry points of {plugin.package} cannot be read. Update that package, or uninstall it."
        if plugin.name in self.built_in:
            return f"{plugin.package} cannot replace the {self.kind} {self._shown(plugin.name)}, which is built in."
        if not re.fullmatch(self.names, plugin.name):
            return f"{plugin.package}: {plugin.name!r} is not a name for a {self.kind}; allowed is `{self.names}`."
        return ""

    def _unknown(self, name: str) -> str:
        known = ", ".join(map(self._shown, [*self.built_in, *self.added]))
        sentences = (
            f"There is no {self.kind} {self._shown(name)}.",
            f"There are: {known}." if known else "",
            self.besides,
            f"A package that adds one has to be installed into the environment of midturn ({sys.prefix}).",
            "`midturn doctor` lists those that are.",
        )
        return " ".join(filter(None, sentences))

    def _shown(self, name: str) -> str:
        return f"`{self.shown.format(name)}`"


def _declared(kind: Kind) -> Iterator[Plugin]:
    folders = _folders(tuple(_places()))
    if not folders:
        return
    from importlib.metadata import Distribution, EntryPoint  # takes 30 ms, and most people have no plug-in

    for folder in folders:
        name, _, version = os.path.basename(folder).rpartition(".")[0].partition("-")  # noqa: PTH119  a text
        group = f"midturn.{kind}s"
        package = f"{name.replace('_', '-')} {version}".strip()
        try:
            entries = [*Distribution.at(folder).entry_points.select(group=group)]
        except (ValueError, TypeError):  # the file is not what it should be
            yield Plugin(EntryPoint("", "", group), package)
            continue
        yield from (Plugin(entry, package) for entry in entries)


def _places() -> Iterator[str]:
    """Yield where packages are installed: the path, without the working directory."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109  a text
    except FileNotFoundError:
        here = ""
    yield from (place for place in dict.fromkeys(sys.path) if place and os.path.realpath(place) != here)


@cache
def _folders(places: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metadata of the packages that add something: of each package the first on the path, as it would be imported."""
    found: dict[str, str] = {}
    for place in places:
        for name in _metadata_in(place):
            found.setdefault(name.partition("-")[0].lower(), f"{place}/{name}")
    return tuple(folder for folder in found.values() if _adds(folder))


def _metadata_in(place: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(place) if name.endswith(_METADATA))  # noqa: PTH208  texts are enough
    except OSError:  # an archive, or nothing
        return []


def _adds(folder: str) -> bool:
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123  twice as fast, for hundreds of them
            return b"[midturn." in file.read()
    except OSError:
        return False
