# Runs the command that a run has in place of a program.
"$@"
