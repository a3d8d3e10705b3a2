"""Results: published figures, and those that the lab measured."""
