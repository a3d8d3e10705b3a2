"""What was measured, kept: schema, store, results in memory. Importing the room loads nothing."""
