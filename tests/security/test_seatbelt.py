"""The text of the sandbox profile for macOS.

The profile cannot be run here, and no test claims that it was.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from typing import Any

import pytest

from midturn.security import confine, landlock
from midturn.security.profile import SandboxProfile

HOSTILE = '/work/") (allow default) ("'
PROFILE = SandboxProfile(read=("/usr", HOSTILE), write=("/work",), network=False)


def lines(
    profile: SandboxProfile = PROFILE, masked: tuple[str, ...] = ("/work/.midturn",)
) -> list[str]:
    return confine.seatbelt_rules(profile, masked).splitlines()


def test_everything_is_denied_by_default() -> None:
    assert lines()[:2] == ["(version 1)", "(deny default)"]
    assert not any("allow default" in line or "(allow file-write*)" in line for line in lines())


def test_file_names_cannot_inject_rules() -> None:
    command = confine.in_seatbelt(("/bin/ls", "-l"), PROFILE, ())

    assert "allow default" not in command[2]
    assert f"READ_1={HOSTILE}" in command
    assert command[-2:] == ("/bin/ls", "-l")


def test_the_profile_is_balanced_and_every_parameter_is_set() -> None:
    text = confine.seatbelt_rules(PROFILE, ("/work/.midturn",))
    command = confine.in_seatbelt(("/bin/ls",), PROFILE, ("/work/.midturn",))

    assert all(line.count("(") == line.count(")") for line in text.splitlines())
    given = {
        word.partition("=")[0] for before, word in itertools.pairwise(command) if before == "-D"
    }
    assert (
        set(re.findall(r'\(param "([A-Z]+_\d+)"\)', text))
        == given
        == {"READ_0", "READ_1", "WRITE_0", "MASK_0"}
    )


def test_masked_paths_are_denied_by_the_last_rules() -> None:
    assert lines()[-1] == '(deny file* (subpath (param "MASK_0")))'


def test_the_network_is_allowed_only_if_granted() -> None:
    assert not any("network" in line for line in lines())
    assert "(allow network* system-socket)" in lines(
        SandboxProfile(read=(), write=(), network=True)
    )


def test_no_terminal_is_allowed() -> None:
    assert not re.search(r"tty|pts|pseudo", confine.seatbelt_rules(PROFILE, ()))


@pytest.mark.parametrize(("status", "means"), [(0, "sandbox-exec"), (71, "none")])
def test_the_sandbox_is_used_if_it_works(
    monkeypatch: pytest.MonkeyPatch, status: int, means: str
) -> None:
    """Inside another sandbox it fails, and is then not used."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    monkeypatch.setattr(confine, "bubblewrap", lambda: None)

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", run)

    offered = confine.sandbox_backend.__wrapped__()

    assert offered.means == means
    assert offered.lacks
