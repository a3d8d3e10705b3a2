"""Records in, numbers out: no clock, no file. Importing the room loads nothing."""
