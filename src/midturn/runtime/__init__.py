"""The shell around the machine: it performs effects and reports what happened; it decides nothing."""
