"""What a request may set: the parameters of a model, and how long a provider should keep what it has read."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from midturn.core.json_value import JsonObject
from midturn.core.suggestion import did_you_mean
from midturn.errors import ConfigError, ModelError

KNOWN: Final = (
    "citations",
    "extra_body",
    "extra_headers",
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "seed",
    "service_tier",
    "stop_sequences",
    "temperature",
    "thinking",
    "top_k",
    "top_p",
)
_OWN: Final = ("anthropic_", "google_", "openai_")


def check_parameters(model: str, parameters: JsonObject) -> None:
    """Refuse a parameter that nothing would come of. A provider's own ones (`anthropic_…`, `google_…`, `openai_…`) pass.

    Raises:
        ModelError: There is no such parameter; the nearest is named.
    """
    for name in parameters:
        if name not in KNOWN and not name.startswith(_OWN):
            advice = did_you_mean(name, KNOWN) or f" Known are {', '.join(f'`{known}`' for known in KNOWN)}."
            raise ModelError(f"{model}: there is no parameter `{name}`.{advice}")


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
