"""What a run has cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from midturn.core.exchange import Usage
from midturn.core.json_value import Json
from midturn.models.wrapper import Spent


class TurnUsage(Usage, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of one run, of all its models together; `total` is their sum.

    `requests` counts the requests that were answered, `by_model` the tokens of each model, and `inquiries` those of models that answered
    questions, which are in the others, too.

    Args:
        input_tokens: What the models read.
        output_tokens: What they wrote.
        cache_read_tokens: What of it a provider had kept.
        cache_write_tokens: What it has kept now.
    """

    requests: int = 0
    by_model: Mapping[str, Usage] = {}
    inquiries: Usage = Usage()

    def to_json(self) -> dict[str, Json]:
        """Return the counts by name."""
        counts = Usage(self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens).to_json()
        by_model: Json = {name: usage.to_json() for name, usage in self.by_model.items()}
        return {**counts, "requests": self.requests, "by_model": by_model, "inquiries": self.inquiries.to_json()}


def turn_usage(spent: Iterable[Spent]) -> TurnUsage:
    """Return what requests have cost together."""
    requests, whole, inquiries = 0, Usage(), Usage()
    by_model: dict[str, Usage] = {}
    for request in spent:
        requests += 1
        whole += request.usage
        by_model[request.model] = by_model.get(request.model, Usage()) + request.usage
        if request.is_inquiry:
            inquiries += request.usage
    return TurnUsage(
        whole.input_tokens,
        whole.output_tokens,
        whole.cache_read_tokens,
        whole.cache_write_tokens,
        requests=requests,
        by_model=by_model,
        inquiries=inquiries,
    )
