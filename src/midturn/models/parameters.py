"""The parameters that a model may be given."""

from __future__ import annotations

from typing import Final

from midturn.core.json_value import JsonObject
from midturn.core.suggestion import did_you_mean
from midturn.errors import ModelError

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
