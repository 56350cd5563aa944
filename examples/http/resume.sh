#!/usr/bin/env bash
# A run that waits for an answer survives the process that began it.
#
# A first process submits a program that calls a tool, waits for its outcome, and is killed. A second one, this one,
# finds the run by its id, sees the call that waits, and answers it. The program goes on where it was.
# `THERMAE_URL` must name a gateway (docs/gateway.md), and `THERMAE_TOKEN` have its token or an API key.
#
# It prints:
#
#     the first process is dead
#     asked: confirm {'amount': 480}
#     receipt R-480
set -euo pipefail

id="resume-$(cat /proc/sys/kernel/random/uuid)"
runs="$THERMAE_URL/v1/runs"
options=(--silent --show-error --fail-with-body --header "Authorization: Bearer $THERMAE_TOKEN")

# Prints a part of an answer.
field() { python3 -c "import json, sys; print(str(json.load(sys.stdin)$1).strip())"; }

# The first process. Its job lets calls wait if nobody follows the run.
curl "${options[@]}" "$runs?wait=4m" --output /dev/null --json '{
  "id": "'"$id"'",
  "code": "amount = 480\nif await confirm(amount=amount):\n    print(f\"receipt R-{amount}\")",
  "tools": [{"name": "confirm"}],
  "if_client_gone": "wait"
}' &
first=$!
until curl "${options[@]}" "$runs/$id/info" 2> /dev/null | grep --quiet '"calls"'; do sleep 0.05; done
kill -KILL "$first"
wait "$first" 2> /dev/null || echo "the first process is dead"

# The second process knows the run's id, and nothing else.
waiting=$(curl "${options[@]}" "$runs/$id/info")
call=$(field '["calls"][0]["call"]' <<< "$waiting")
echo "asked: $(field '["calls"][0]["tool"]' <<< "$waiting") $(field '["calls"][0]["arguments"]' <<< "$waiting")"
curl "${options[@]}" "$runs/$id/take-over" --request POST --output /dev/null
curl "${options[@]}" "$runs/$id/calls/$call" --json '{"ok": true}'
curl "${options[@]}" "$runs/$id?wait=30s" | field '["outcome"]["stdout"]'
