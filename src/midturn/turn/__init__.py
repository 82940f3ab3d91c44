"""The machine: inputs go in as values, effects come out as values, in order."""
