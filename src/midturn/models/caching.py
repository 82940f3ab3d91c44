"""How long a provider should keep what it has read."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from midturn.errors import ConfigError

Retention: TypeAlias = Literal["5m", "30m", "1h", "12h"]
_TIERS: Final[dict[Retention, int]] = {"5m": 300, "30m": 1_800, "1h": 3_600, "12h": 43_200}
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def retention(cache: str) -> bool | Retention:
    """Return what `request.cache` means: off, the provider's usual time, or the offered time that is nearest to a duration.

    Raises:
        ConfigError: It is none of `off`, `short`, `long` and a duration such as `90s`, `30m`, `2h`.
    """
    match cache:
        case "off":
            return False
        case "short":
            return True
        case "long":
            return "1h"
        case _:
            seconds = _seconds(cache)
            return min(_TIERS, key=lambda tier: abs(_TIERS[tier] - seconds))


def _seconds(duration: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", duration.strip())
    if not found:
        raise ConfigError(f"`request.cache` is {duration!r}. Write `off`, `short`, `long`, or a duration such as `30m` or `2h`.")
    return float(found[1]) * _UNITS[found[2]]
