"""Counts: differences that survive wraps and resets, and whether independent counts agree."""
