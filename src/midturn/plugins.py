"""Plug-ins: stores, agents, commands and tools that other packages bring, found by their entry points.

A package declares them in its `pyproject.toml`, as `docs/guides/plug-ins.md` shows:

    [project.entry-points."midturn.stores"]
    memo = "midturn_memo:open_memo"

**Names of ours come first.** What midturn brings itself stands in tables of the same form (`module:name`), and a package is looked for only
where a name is in none of them: so no package can take the place of a store, an agent, a command or a tool that people know, and no command
reads the metadata of everything that is installed (some 40 ms) to find one of ours.

**Nothing is loaded unasked.** Listing reads metadata alone. A module of a package is imported when its name was asked for: by a command
line, by a program, or by a configuration file that its user has written or approved.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.errors import ConfigError

Kind: TypeAlias = Literal["store", "agent", "command", "tool"]
"""The kinds of plug-ins; their group of entry points is `midturn.stores`, and so on."""
KINDS: tuple[Kind, ...] = ("store", "agent", "command", "tool")


class Plugin(Struct, frozen=True):
    """One thing that a package brings.

    Args:
        kind: Of which kind it is.
        name: The name that people use.
        home: Where it is defined, as `module:name`.
        package: The package and its version, for people.
    """

    kind: Kind
    name: str
    home: str
    package: str

    def load(self) -> object:
        """Import it.

        Raises:
            ConfigError: It cannot be imported; the message names the package.
        """
        from importlib.metadata import EntryPoint

        try:
            return EntryPoint(self.name, self.home, f"midturn.{self.kind}s").load()
        except Exception as error:
            what = f"The {self.kind} `{self.name}` of {self.package}"
            raise ConfigError(f"{what} cannot be loaded ({type(error).__name__}: {error}). Update that package, or remove it.") from error


def find(kind: Kind, name: str) -> Plugin | None:
    """Return what a package brings under a name.

    Raises:
        ConfigError: Several packages claim the name.
    """
    claims = installed(kind).get(name, ())
    if len(claims) > 1:
        packages = " and ".join(claim.package for claim in claims)
        raise ConfigError(f"Several packages bring a {kind} `{name}`: {packages}. Remove all but one.")
    return claims[0] if claims else None


@cache
def installed(kind: Kind) -> Mapping[str, tuple[Plugin, ...]]:
    """Return what the packages of this environment bring, by name; nothing is imported. A name with several plug-ins has several claims."""
    from importlib.metadata import entry_points  # reads every package's metadata, and loads much for it: only for names that are not ours

    found: dict[str, dict[str, Plugin]] = {}
    for entry in entry_points(group=f"midturn.{kind}s"):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
        plugin = Plugin(kind, entry.name, entry.value, package)
        found.setdefault(entry.name, {})[f"{package} {entry.value}"] = plugin  # the path may lead to one package twice
    return {name: tuple(claims[key] for key in sorted(claims)) for name, claims in sorted(found.items())}
