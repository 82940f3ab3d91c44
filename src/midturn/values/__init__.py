"""The pure core: no I/O, no clock, no randomness, no tasks."""
