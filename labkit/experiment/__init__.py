"""Experiments: what to try, in which order, and how it compares."""
