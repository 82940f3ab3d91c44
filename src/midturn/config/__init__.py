"""Configuration: layers of files, environment and flags, resolved into frozen settings (spec 8.1)."""
