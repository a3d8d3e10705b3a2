"""Trials and sweeps: what is planned, how one run is measured. Importing the room loads nothing."""
