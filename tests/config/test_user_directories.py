"""User directories equal those of `platformdirs`, which is not loaded."""

from __future__ import annotations

import os
from unittest import mock

import pytest
from hypothesis import given, strategies as st
from platformdirs.unix import Unix

from midturn.errors import ConfigError
from midturn.security import private_files
from midturn.security.private_files import user_cache, user_config, user_data, user_state

PLACES = st.sampled_from(
    [
        None,
        "",
        "/",
        "relative",
        "~",
        "~/there",
        "/home/ann",
        "/home/ann/",
        "/home/../srv",
        "//srv",
        "./here",
        " /x",
    ]
)
ENVIRONMENTS = st.fixed_dictionaries(
    dict.fromkeys(
        ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), PLACES
    )
)


@given(ENVIRONMENTS)
def test_user_directories_equal_those_of_platformdirs(environment: dict[str, str | None]) -> None:
    set_ones = {name: value for name, value in environment.items() if value is not None}
    with mock.patch.dict(os.environ, set_ones, clear=True):
        library = Unix("midturn", appauthor=False)
        assert user_config() == library.user_config_path
        assert user_state() == library.user_state_path
        assert user_data() == library.user_data_path
        assert user_cache() == library.user_cache_path


def test_missing_home_directory_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(private_files.os, "getuid", lambda: 2**31 - 7)

    assert str(user_state()) == "/srv/state/midturn"
    with pytest.raises(ConfigError, match="Set `HOME` or `XDG_DATA_HOME` to an absolute path"):
        user_data()
