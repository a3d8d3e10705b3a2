"""The `labkit` command: the library returns, this room prints."""

from labkit.cli.app import main

__all__ = ["main"]
