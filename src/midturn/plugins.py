"""Plug-ins: stores, agents, commands, tools and channels from other packages, found by their entry
points.

A package declares them in its `pyproject.toml`, as `docs/howto/plug-ins.md` shows:

    [project.entry-points."midturn.stores"]
    memo = "midturn_memo:open_memo"

**Built-in names take precedence.** Packages are searched only for names that are not built in. So
no package can replace a built-in store, agent, command or tool, and built-in commands start without
a search.

**Plug-ins are loaded on request only.** Listing reads package metadata only. A package is imported
when its plug-in is named on a command line, in a program or in a configuration file that the user
wrote or approved, and by `midturn doctor`, which checks whether the plug-in works.

**The working directory is never searched.** `python -m` puts it on the import path, and it may be a
clone of untrusted code.
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
"""Kinds of plug-ins. Their entry point groups are `midturn.stores`, `midturn.agents` and so on."""
_METADATA = (".dist-info", ".egg-info")


class Plugin(Struct, frozen=True):
    """A plug-in that a package declares. `package` is the name and the version of the package.
    The name is empty if the metadata cannot be read.
    """

    entry: EntryPoint
    package: str

    @property
    def name(self) -> str:
        """The name with which users select the plug-in."""
        return self.entry.name

    @property
    def home(self) -> str:
        """The object that the plug-in refers to, as `module:name`."""
        return self.entry.value


class Registry(Struct, Generic[T], frozen=True, kw_only=True):
    """All plug-ins of one kind.

    Args:
        kind: The kind of plug-in, as named in messages.
        built_in: The built-in names.
        fits: Returns whether a loaded object can be used under a name.
        ought: Description of a valid object, for the error message about an invalid object.
        shown: Format for names in messages.
        besides: Further advice for the error message about an unknown name.
        names: Regular expression for valid names.
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
        """All declared plug-ins by name, including invalid ones. Nothing is imported."""
        return tuple(sorted(_declared(self.kind), key=lambda plugin: (plugin.name, plugin.package)))

    @property
    def added(self) -> dict[str, str]:
        """The usable plug-ins: package by name. Nothing is imported."""
        return {
            plugin.name: plugin.package for plugin in self.declared if not self._refusal(plugin)
        }

    def load(self, name: str) -> T:
        """Import the plug-in with a name that is not built in.

        Raises:
            ConfigError: No package or several packages declare the plug-in, or it cannot be
                imported or used.
        """
        plugins = [
            plugin for plugin in self.declared if plugin.name == name and not self._refusal(plugin)
        ]
        if not plugins:
            raise ConfigError(self._unknown(name))
        if len(plugins) > 1:
            packages = " and ".join(plugin.package for plugin in plugins)
            raise ConfigError(
                f"Several packages add the {self.kind} {self._shown(name)}: {packages}. Uninstall"
                " all but one."
            )
        return self._loaded(plugins[0])

    def problem(self, plugin: Plugin) -> str:
        """Import a plug-in and return an error message, or an empty string if it can be used."""
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
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            raise ConfigError(
                f"{named} cannot be loaded ({type(error).__name__}: {error}). Update that package,"
                " or uninstall it."
            ) from error
        if not self.fits(loaded, plugin.name):
            raise ConfigError(
                f"{named} cannot be used: `{plugin.home}` is not {self.ought}. Update that package,"
                " or uninstall it."
            )
        return cast("T", loaded)

    def _refusal(self, plugin: Plugin) -> str:
        if not plugin.name:
            return (
                f"The entry points of {plugin.package} cannot be read. Update that package, or"
                " uninstall it."
            )
        if plugin.name in self.built_in:
            return (
                f"{plugin.package} cannot replace the {self.kind} {self._shown(plugin.name)}, which"
                " is built in."
            )
        if not re.fullmatch(self.names, plugin.name):
            return (
                f"{plugin.package}: {plugin.name!r} is not a valid name for a {self.kind}; it must"
                f" match `{self.names}`."
            )
        return ""

    def _unknown(self, name: str) -> str:
        known = ", ".join(map(self._shown, [*self.built_in, *self.added]))
        sentences = (
            f"There is no {self.kind} {self._shown(name)}.",
            f"Available: {known}." if known else "",
            self.besides,
            (
                "A package that adds it must be installed in the environment of midturn"
                f" ({sys.prefix})."
            ),
            "`midturn doctor` lists the installed plug-ins.",
        )
        return " ".join(filter(None, sentences))

    def _shown(self, name: str) -> str:
        return f"`{self.shown.format(name)}`"


def _declared(kind: Kind) -> Iterator[Plugin]:
    folders = _folders(tuple(_places()))
    if not folders:
        return
    from importlib.metadata import (
        Distribution,
        EntryPoint,
    )  # takes 30 ms, and most installations have no plug-ins

    for folder in folders:
        name, _, version = os.path.basename(folder).rpartition(".")[0].partition("-")  # noqa: PTH119  faster than pathlib
        group = f"midturn.{kind}s"
        package = f"{name.replace('_', '-')} {version}".strip()
        try:
            entries = [*Distribution.at(folder).entry_points.select(group=group)]
        except (ValueError, TypeError):  # the file is invalid
            yield Plugin(EntryPoint("", "", group), package)
            continue
        yield from (Plugin(entry, package) for entry in entries)


def _places() -> Iterator[str]:
    """Yield the directories of the import path, except the working directory."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109  faster than pathlib
    except FileNotFoundError:
        here = ""
    yield from (
        place for place in dict.fromkeys(sys.path) if place and os.path.realpath(place) != here
    )


@cache
def _folders(places: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metadata directories of packages with plug-ins. If a package is installed twice,
    only the first on the path is returned, as for imports.
    """
    found: dict[str, str] = {}
    for place in places:
        for name in _metadata_in(place):
            found.setdefault(name.partition("-")[0].lower(), f"{place}/{name}")
    return tuple(folder for folder in found.values() if _has_plugins(folder))


def _metadata_in(place: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(place) if name.endswith(_METADATA))  # noqa: PTH208  faster than pathlib
    except OSError:  # the path entry is an archive, or does not exist
        return []


def _has_plugins(folder: str) -> bool:
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123  twice as fast, and there may be hundreds of packages
            return b"[midturn." in file.read()
    except OSError:
        return False
