"""The configuration that `midturn init` writes to begin from."""

from __future__ import annotations

from collections.abc import Mapping

from midturn.cli.place import environment

PREFERRED = {
    "ANTHROPIC_API_KEY": ("anthropic/claude-sonnet-5-5", "anthropic/claude-haiku-4-5"),
    "OPENAI_API_KEY": ("openai/gpt-5.6", "openai/gpt-5.6-mini"),
    "GOOGLE_API_KEY": ("google/gemini-3-pro", "google/gemini-3-flash"),
}


def starter_config(*, review: bool, keys: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the text of the file, and a sentence that says which model was chosen and why."""
    variables = environment() if keys is None else keys
    found = next((name for name in PREFERRED if variables.get(name)), None)
    model, reviewer = PREFERRED[found] if found else ("", "")
    lines = ["# What the keys mean: `midturn config explain KEY`.", "", "[assistant]"]
    if model:
        lines.append(f'model.id = "{model}"')
    else:
        lines.append('# model.id = "anthropic/claude-sonnet-5-5"   # and its key in ANTHROPIC_API_KEY')
    if review:
        lines += ["", *_review(reviewer)]
    chosen = f"The model is {model}, because {found} is set." if found else _no_key()
    return "\n".join(lines) + "\n", chosen


def _no_key() -> str:
    return f"No model was chosen: none of {', '.join(PREFERRED)} is set. `midturn demo` needs none."


def _review(reviewer: str) -> list[str]:
    """Have patches reviewed by another model than the one that writes them (spec 4.4)."""
    return [
        "# A model reviews each change; what it rejects goes to you. `midturn trust` lets this take effect.",
        "[conversation.tools.fs_modify_file.questions.apply_changes.target]",
        f'model.id = "{reviewer}"' if reviewer else '# model.id = "anthropic/claude-haiku-4-5"',
        "escalation = true",
    ]
