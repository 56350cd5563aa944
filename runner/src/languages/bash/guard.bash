# Says what happens when the shell ends. If a program leaves it, leave.bash starts it anew. A signal that ends it does so
# after this trap. Bash does not say which it is, but `return` has no place to go to any more once such a signal has come.
# The status 130 is that of an interrupt, which may also come between two programs.
trap '{ __thermae_left=$?; ((__thermae_left == 130)) || (return 0) && . @leave@; } 2>/dev/null' EXIT
