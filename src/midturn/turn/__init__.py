"""The machine: what happened goes in as a value, what is to be done comes out as values, in order."""
