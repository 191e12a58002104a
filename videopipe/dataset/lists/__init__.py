"""Lists of videos and ranges of videos, as text, tables and Arrow files."""
