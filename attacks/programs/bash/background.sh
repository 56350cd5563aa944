: <<'SHEET'
tries = "leaves processes in the background that have a session of their own and ignore every signal"
wins = "a way to watch and to disturb the next job"
guard = "the sandbox's pid 1 is killed with the job, and the kernel ends every process of its namespace"
control = {}
held.left = "started"
held.found = "clean"
open.found = "found"
SHEET
time=600
[[ $ATTACK == *'"report"'* ]] && time=4
cp "$(command -v sleep)" /tmp/d12345678901234 2>/dev/null
(trap '' HUP INT TERM; setsid nohup /tmp/d12345678901234 $time >/dev/null 2>&1 </dev/null &) &
disown -a
wait
until grep -qs d12345678901234 /proc/[0-9]*/comm; do :; done
rm -f /tmp/d12345678901234
observe left started
# --- the next job
observe found "$(grep -qs d12345678901234 /proc/[0-9]*/comm && echo found || echo clean)"
