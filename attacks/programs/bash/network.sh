: <<'SHEET'
tries = "connects to a port at `127.0.0.1` that a process of the machine listens on, by the shell's own `/dev/tcp`"
wins = "the machine's local services: databases, agents, the fleet's own"
guard = "each container has its own network namespace, with a loopback of its own"
control = {}
held.tcp = "1"
held.outside = "1"
open.tcp = "0"
SHEET
port=$(sed 's/.*"port": *\([0-9]*\).*/\1/' <<<"$ATTACK")
attempt tcp eval "exec 3<>/dev/tcp/127.0.0.1/$port"
attempt outside eval "exec 3<>/dev/tcp/192.0.2.1/80"
