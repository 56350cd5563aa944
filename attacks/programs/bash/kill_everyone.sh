: <<'SHEET'
tries = "in a session, kills every process that it can see, and so the process that gives the shell its programs"
wins = "the end of the runner, of a zygote or of another job; a container that hangs"
guard = "each sandbox has its own pid namespace, so the job reaches only its own processes; a session without its keeper ends"
uncontrolled = "outside a sandbox, it would end the machine's processes"
session = true
limits = { wall_ms = 2000 }
held.started = "yes"
outcome = { status = "failed", error = "code_killed" }
SHEET
observe started yes
kill -KILL -1
sleep 10
