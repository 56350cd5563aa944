: <<'SHEET'
tries = "ignores every signal that it can, in a session's shell and in a command that it waits for"
wins = "a container, forever"
guard = "after the interrupt at the wall-clock limit and a grace period, the runner kills the sandbox's pid 1, which nothing can ignore"
uncontrolled = "a kill ends any process, with or without a sandbox"
session = true
limits = { wall_ms = 300 }
held.started = "yes"
outcome = { status = "timed_out", error = "wall_timeout", message = "killed" }
SHEET
observe started yes
trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM CHLD TSTP TTIN TTOU
sleep 1000
while :; do :; done
