: <<'SHEET'
tries = "the shell's classic fork bomb: a function that calls itself twice, in the background"
wins = "a machine that has no process left for others"
guard = "an rlimit on processes, counted per user namespace and so per sandbox; behind it, the container's control group"
slow = true
uncontrolled = "it would take the machine down"
aftermath = true
limits = { wall_ms = 1500 }
held.started = "yes"
outcome = { status = "timed_out", error = "wall_timeout" }
[runsc]
outcome = { status = "lost", error = "sandbox_lost" }
SHEET
observe started yes
trap '' INT TERM
bomb() { bomb | bomb & }
while :; do bomb; done 2>/dev/null
