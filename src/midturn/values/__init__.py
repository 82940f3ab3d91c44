"""Values that everything else is made of: JSON, text, limits, secrets. Pure: no I/O, no clock, no randomness, no tasks."""
