"""From a model's id to a model (spec 4b.2)."""
