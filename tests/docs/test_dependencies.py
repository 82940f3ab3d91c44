"""Every imported package is declared in the extra that needs it, and docs/project/licences.md
names its licence.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import files, metadata, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.documents import ROOT

SOURCE = ROOT / "src" / "midturn"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
IMPORTED_BY = {
    "integrations/a2a/": ("a2a",),
    "integrations/acp/": ("acp",),
    "integrations/agui/": ("agui",),
    "integrations/remote_": ("a2a", "agui"),
    "integrations/langchain": ("langgraph",),
    "integrations/langgraph": ("langgraph",),
    "integrations/openai_agents": ("openai-agents",),
    "integrations/pydantic_ai": ("pydantic-ai",),
    "integrations/remote_http": ("agui", "a2a"),
    "agent/dbos": ("dbos",),
    "channels/discord": ("discord",),
    "channels/email": ("email",),
    "channels/mail_server": ("email",),
    "channels/matrix": ("matrix",),
    "channels/ntfy": ("ntfy",),
    "channels/slack": ("slack",),
    "channels/telegram": ("telegram",),
    "cli/a2a": ("a2a",),
    "cli/serve.py": ("web",),
    "http_body": ("http",),
    "http_server": ("http",),
    "http_token": ("http",),
    "mcp/": ("mcp",),
    "integrations/mcp_server/": ("mcp",),
    "models/library": ("anthropic", "openai", "google"),
    "otel": ("otel",),
    "stores/postgres/": ("postgres",),
    "inbox/notifications": ("web", "notify"),
    "web/push": ("webpush",),
    "web/": ("web",),
}
"""Extras by the beginning of a module's path. Every other module belongs to the base install."""
OF_PYTEST = "testing/plugin.py"  # loaded by pytest only


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the packages imported at run time."""
    for child in ast.iter_child_nodes(node):
        if _is_for_types(child):
            continue
        if isinstance(child, ast.Import):
            yield from (name.name.partition(".")[0] for name in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield child.module.partition(".")[0]
        yield from _imports(child)


def _declared(requirements: list[str]) -> set[str]:
    """Return the packages of an extra, including those of our own extras that it names.

    An extra of another package counts as that package.
    """
    found: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.name == "midturn":
            for extra in requirement.extras:
                found |= _declared(EXTRAS[extra])
        else:
            found |= {
                canonicalize_name(requirement.name),
                *map(canonicalize_name, requirement.extras),
            }
    return found


def _extras_of(path: str) -> tuple[str, ...]:
    return next(
        (extras for beginning, extras in IMPORTED_BY.items() if path.startswith(beginning)), ()
    )


def test_every_imported_package_is_declared_where_it_is_imported() -> None:
    distributions = packages_distributions()
    base = _declared(PROJECT["dependencies"])
    missing: list[str] = []
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE).as_posix()
        extras = _extras_of(path)
        one_is_enough = path.startswith(("models/library", "inbox/notifications"))
        declared = [base | _declared(EXTRAS[extra]) for extra in extras] or [base]
        for name in set(_imports(ast.parse(file.read_text(encoding="utf-8")))) - {
            "midturn",
            *sys.stdlib_module_names,
        }:
            owners = {canonicalize_name(owner) for owner in distributions.get(name, [name])}
            is_there = [bool(owners & each) for each in declared]
            if not (any(is_there) if one_is_enough else all(is_there)) and path != OF_PYTEST:
                where = ", ".join(extras) or "the base install"
                missing.append(
                    f"{path} imports {name} ({', '.join(sorted(owners))}), which {where} does not"
                    " declare"
                )
    assert missing == []


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"web", "webpush", "all"}))
def test_only_the_page_installs_the_packages_of_the_page(extra: str) -> None:
    page = _declared(EXTRAS["web"]) - _declared(EXTRAS["http"])
    assert not _declared(EXTRAS[extra]) & page


@pytest.mark.parametrize("extra", ["discord", "email", "matrix", "ntfy", "slack", "telegram"])
def test_a_channel_installs_no_http_server(extra: str) -> None:
    assert not _declared(EXTRAS[extra]) & _declared(EXTRAS["http"])


def _pins(path: str) -> set[str]:
    return set(re.findall(r"^(\S+==\S+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))


def test_the_demo_installs_the_base_packages_as_the_tests_pin_them() -> None:
    pins = _pins("tools/demo-requirements.txt")
    assert {str(canonicalize_name(pin.partition("==")[0])) for pin in pins} >= _declared(
        PROJECT["dependencies"]
    )
    assert pins <= _pins("requirements.txt")
    assert len(pins) < 25, "the demo needs what `pip install .` installs, and what builds midturn"


def _licences() -> dict[str, tuple[str, str]]:
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$",
        (ROOT / "docs" / "project" / "licences.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return {
        canonicalize_name(name): (where.strip(), licence.strip()) for name, where, licence in rows
    }


def _all_declared() -> set[str]:
    lists = [
        PROJECT["dependencies"],
        *(requirements for extra, requirements in EXTRAS.items() if extra != "all"),
    ]
    return {
        str(canonicalize_name(Requirement(line).name))
        for requirements in lists
        for line in requirements
    } - {"midturn"}


def test_the_document_names_the_licence_of_every_declared_package() -> None:
    assert set(_licences()) == _all_declared()


def test_the_document_names_the_extras_of_every_package() -> None:
    for name, (where, _) in _licences().items():
        extras = [
            extra
            for extra, lines in EXTRAS.items()
            if name in {canonicalize_name(Requirement(line).name) for line in lines}
        ]
        assert where == (", ".join(extras) or "base"), name


WORDS = {
    "Apache-2.0": ("apache",),
    "BSD-2-Clause": ("bsd", "redistribution and use"),
    "BSD-3-Clause": ("bsd", "redistribution and use"),
    "ISC": ("internet systems consortium", "isc"),
    "LGPL-3.0": ("lgpl-3.0",),
    "MIT": ("mit",),
    "MPL-2.0": ("mpl-2.0",),
}
"""Spellings of licences in package metadata or at the beginning of licence texts."""


@pytest.mark.parametrize("name", sorted(_licences()))
def test_the_licence_is_that_of_the_installed_package(name: str) -> None:
    about = metadata(name)
    said = [*(about.get_all("License-Expression") or []), *(about.get_all("License") or [])]
    said += [line for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    written = (" ".join(said) or _text(name)).casefold()
    for licence in re.split(r" and | or ", _licences()[name][1]):
        assert any(word in written for word in WORDS[licence]), (name, licence, written[:200])


def _text(name: str) -> str:
    named = [file for file in files(name) or [] if re.search(r"(?i)licen[cs]e|copying", file.name)]
    paths = [Path(str(file.locate())) for file in named]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
