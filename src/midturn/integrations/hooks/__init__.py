"""The question layer for agents that people already have: what they ask is put to a person here, recorded, and answered there."""
