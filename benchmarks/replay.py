"""Processor time of a recorded answer when its call runs again.

One turn waits behind a hundred answers of one call, another behind none. Both are resumed
alternately by new objects. Prints the minimum and the median of the difference per answer;
asserts nothing. Usage: replay.py [ROUNDS]
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time

from turns import QUESTIONS, Replayed


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        without, with_all = Replayed(few, 0), Replayed(many, QUESTIONS)
        took: list[tuple[float, float]] = []
        for _ in range(rounds):
            gc.collect()
            took.append((without.go_on(time.process_time)[0], with_all.go_on(time.process_time)[0]))
    least = min(more for _, more in took) - min(less for less, _ in took)
    usual = statistics.median(more - less for less, more in took)
    print(
        f"an answer that is replayed: {least / QUESTIONS * 1e6:.0f} µs at least,"
        f" {usual / QUESTIONS * 1e6:.0f} µs usually"
    )


if __name__ == "__main__":
    main()
