"""A running process reads the configured people again when the configuration changes."""

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


def test_removed_person_is_refused_without_a_restart(config: Path, tmp_path: Path) -> None:
    config.write_text("[people.ana]\n[people.bo]\n")
    assert names(tmp_path) == {"ana", "bo"}
    config.write_text("[people.bo]\n")
    assert names(tmp_path) == {"bo"}


def test_broken_configuration_keeps_the_previous_people(
    config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config.write_text("[people.ana]\n")
    assert names(tmp_path) == {"ana"}
    config.write_text('[people.ana]\nlogins = ["x"]\n[people.bo]\nlogins = ["X"]\n')
    assert names(tmp_path) == {"ana"}
    assert "invalid configuration; keeping its previous people and groups: " in caplog.text


def test_configuration_that_never_loaded_has_no_people(config: Path, tmp_path: Path) -> None:
    config.write_text("[people.ana\n")
    with pytest.raises(ConfigError):
        names(tmp_path)
