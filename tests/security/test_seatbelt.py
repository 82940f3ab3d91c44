"""The profile for macOS's sandbox, as text: it cannot be tried where these tests run, and nobody claims that it was."""

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


def lines(profile: SandboxProfile = PROFILE, masked: tuple[str, ...] = ("/work/.midturn",)) -> list[str]:
    return confine.seatbelt_rules(profile, masked).splitlines()


def test_everything_is_denied_that_no_rule_allows() -> None:
    assert lines()[:2] == ["(version 1)", "(deny default)"]
    assert not any("allow default" in line or "(allow file-write*)" in line for line in lines())


def test_no_name_of_a_file_becomes_a_rule() -> None:
    command = confine.in_seatbelt(("/bin/ls", "-l"), PROFILE, ())

    assert "allow default" not in command[2]
    assert f"READ_1={HOSTILE}" in command
    assert command[-2:] == ("/bin/ls", "-l")


def test_every_rule_is_closed_and_every_parameter_given() -> None:
    text = confine.seatbelt_rules(PROFILE, ("/work/.midturn",))
    command = confine.in_seatbelt(("/bin/ls",), PROFILE, ("/work/.midturn",))

    assert all(line.count("(") == line.count(")") for line in text.splitlines())
    given = {word.partition("=")[0] for before, word in itertools.pairwise(command) if before == "-D"}
    assert set(re.findall(r'\(param "([A-Z]+_\d+)"\)', text)) == given == {"READ_0", "READ_1", "WRITE_0", "MASK_0"}


def test_what_is_masked_is_denied_last_for_the_last_rule_counts() -> None:
    assert lines()[-1] == '(deny file* (subpath (param "MASK_0")))'


def test_the_network_is_there_only_where_that_is_said() -> None:
    assert not any("network" in line for line in lines())
    assert "(allow network* system-socket)" in lines(SandboxProfile(read=(), write=(), network=True))


def test_no_terminal_is_named() -> None:
    assert not re.search(r"tty|pts|pseudo", confine.seatbelt_rules(PROFILE, ()))


@pytest.mark.parametrize(("status", "means"), [(0, "sandbox-exec"), (71, "none")])
def test_it_is_used_where_it_is_there_and_works(monkeypatch: pytest.MonkeyPatch, status: int, means: str) -> None:
    """Inside another sandbox it refuses: then nothing is claimed."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    monkeypatch.setattr(confine, "bubblewrap", lambda: None)

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", run)

    offered = confine.offer.__wrapped__()

    assert offered.means == means
    assert offered.lacks
