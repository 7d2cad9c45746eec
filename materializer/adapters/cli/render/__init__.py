"""One module for each command, or for commands that show the same: the exit status, the JSON form and the text of a result."""
