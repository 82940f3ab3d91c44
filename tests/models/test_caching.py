from __future__ import annotations

import pytest

from midturn.errors import ConfigError
from midturn.models.caching import Retention, retention


@pytest.mark.parametrize(
    ("cache", "means"),
    [
        ("off", False),
        ("short", True),
        ("long", "1h"),
        ("90s", "5m"),
        ("20m", "30m"),
        ("1h", "1h"),
        ("2h", "1h"),
        ("0.5h", "30m"),
        ("3d", "12h"),
    ],
)
def test_a_cache_setting_becomes_what_providers_offer(cache: str, means: bool | Retention) -> None:  # noqa: FBT001 (the expected value)
    assert retention(cache) == means


@pytest.mark.parametrize("cache", ["", "forever", "5", "m5", "-1h"])
def test_anything_else_is_refused(cache: str) -> None:
    with pytest.raises(ConfigError, match="Write `off`, `short`, `long`, or a duration"):
        retention(cache)
