"""`python -m midturn`, and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from midturn.cli.main import run

    sys.exit(run())


if __name__ == "__main__":
    main()
