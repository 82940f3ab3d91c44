"""People of the configuration, read again while a process takes answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.cli import people
from midturn.errors import ConfigError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(people, "_PEOPLE_SECONDS", 0.0)
    file = tmp_path / "midturn" / "config.toml"
    file.parent.mkdir()
    return file


def names(cwd: Path) -> set[str]:
    return set(people.people_in(cwd, None, {}).people)


def test_a_person_who_is_removed_is_gone_without_a_restart(config: Path, tmp_path: Path) -> None:
    config.write_text("[people.ana]\n[people.bo]\n")
    assert names(tmp_path) == {"ana", "bo"}
    config.write_text("[people.bo]\n")
    assert names(tmp_path) == {"bo"}


def test_a_configuration_that_became_wrong_names_those_of_before(config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config.write_text("[people.ana]\n")
    assert names(tmp_path) == {"ana"}
    config.write_text('[people.ana]\nlogins = ["x"]\n[people.bo]\nlogins = ["X"]\n')
    assert names(tmp_path) == {"ana"}
    assert "its people are those of before" in caplog.text


def test_a_configuration_that_was_never_right_names_nobody(config: Path, tmp_path: Path) -> None:
    config.write_text("[people.ana\n")
    with pytest.raises(ConfigError):
        names(tmp_path)
