"""What is sent: flows, frames, tables. Importing the room loads nothing."""
