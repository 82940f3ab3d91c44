"""What is prompted, as text: what was typed, and what was attached to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from acp import schema

from midturn.core.stream.markdown import fenced

ContentBlock: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class NotText(Exception):  # noqa: N818  it says what is the case
    """Something was attached that we do not take."""


def words_of(prompt: Sequence[ContentBlock]) -> str:
    """Return the text of a prompt; links as they are, attached files below what was typed.

    Raises:
        NotText: A picture or a sound is attached, which we did not say that we take.
    """
    typed = "".join(_inline(block) for block in prompt)
    attached = [_attached(block.resource) for block in prompt if isinstance(block, schema.EmbeddedResourceContentBlock)]
    return "\n\n".join([typed.strip(), *attached]).strip()


def _inline(block: ContentBlock) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return f"[{block.name}]({block.uri})"
        case schema.EmbeddedResourceContentBlock():
            return f"[{block.resource.uri.rpartition('/')[2]}]({block.resource.uri})"
        case _:
            raise NotText(f"midturn takes text and files, and no {block.type} in a prompt.")


def _attached(resource: schema.TextResourceContents | schema.BlobResourceContents) -> str:
    if isinstance(resource, schema.TextResourceContents):
        return f"{resource.uri}:\n{fenced(resource.text)}"
    raise NotText(f"{resource.uri} is not text, and midturn takes text only.")
