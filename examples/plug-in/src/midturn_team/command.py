"""`midturn standup`: one line about the open questions."""

import click

import midturn as mt


@click.command()
@click.option(
    "--store",
    "address",
    required=True,
    metavar="ADDRESS",
    help="The store of the team: `team://NAME`.",
)
def standup(address: str) -> None:
    """Count the open questions, by tool."""
    counts: dict[str, int] = {}
    for question in mt.open_store(address).pending_sync():
        counts[question.tool] = counts.get(question.tool, 0) + 1
    print(
        ", ".join(f"{tool}: {count}" for tool, count in sorted(counts.items()))
        or "Nothing is open."
    )
