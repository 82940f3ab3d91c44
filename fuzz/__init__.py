"""Fuzzers: what reads what others wrote, fed with what nobody thought of. `make fuzz` runs them; `make test` does so for a moment."""
