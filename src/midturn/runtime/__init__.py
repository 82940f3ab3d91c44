"""The shell around the machine: it performs effects, and reports what happened; what follows from that, the machine decides."""
