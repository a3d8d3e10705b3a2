"""Records to plotly figures, no computation. Importing the room loads nothing."""
