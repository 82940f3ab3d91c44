"""Importing midturn has no side effects, and the references in SECURITY.md exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from support.documents import ROOT

WATCH = """
import sys
seen = []

def hook(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.mkdir")):
        seen.append(event)
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append(f"writes {arguments[0]}")

sys.dont_write_bytecode = True
sys.addaudithook(hook)
__import__(sys.argv[1])
print(sorted(set(seen)))
"""
MODULES = (
    "midturn",
    "midturn.agent",
    "midturn.cli.main",
    "midturn.agent.assembly.command_line",
    "midturn.stores.file_conversations",
    "midturn.security.tool_sandbox",
)


@pytest.mark.parametrize("module", MODULES)
def test_importing_has_no_side_effects(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, module], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_every_test_named_in_the_security_policy_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))

    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


PINS = ("requirements.txt", "tools/audit-requirements.txt", "fuzz/requirements.txt")


@pytest.mark.parametrize("name", PINS)
def test_all_dependencies_are_pinned_with_hashes(name: str) -> None:
    lines = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    pinned = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]

    assert pinned
    assert not [
        line for line in pinned if "==" not in line or "--hash=sha256:" not in line or "://" in line
    ]


def test_the_build_backend_is_pinned_with_hashes() -> None:
    (required,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]

    assert f"\n{required} \\\n    --hash=sha256:" in (ROOT / "requirements.txt").read_text()


def test_every_action_of_the_pipeline_is_pinned_to_a_commit() -> None:
    used = [
        line
        for file in (ROOT / ".github/workflows").iterdir()
        for line in re.findall(r"uses: *(.*)", file.read_text())
    ]

    assert used
    assert [
        line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)
    ] == []
