"""The jobs behind the commands, one a file, each readable from top to bottom."""
