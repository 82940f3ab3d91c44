"""A model answers a tool's question on the side: which model, what it is asked, and whether its answer fits."""
