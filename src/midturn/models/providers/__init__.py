"""The one package that speaks with providers, through `pydantic_ai`'s direct API. Nothing else sends anything through that library."""
