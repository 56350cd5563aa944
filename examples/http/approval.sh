#!/usr/bin/env bash
# A person decides about each payment before it is made: one is approved, the other denied.
#
# In real life, these would be two programs: a page on which people decide, and a service that makes the payments. Here,
# one process does both. With API keys, a decision needs the scope `approve`, and an answer the scope `answer`.
# `THERMAE_URL` must name a gateway (docs/gateway.md), and `THERMAE_TOKEN` have its token or an API key.
#
# It prints:
#
#     waits for approval: pay {'to': 'rent', 'amount': 900}
#     paid: pay {'to': 'rent', 'amount': 900}
#     waits for approval: pay {'to': 'lottery', 'amount': 700}
#     --
#     rent: R-900
#     lottery: approval_denied: the call of "pay" was denied: no gambling
set -euo pipefail

runs="$THERMAE_URL/v1/runs"
options=(--silent --show-error --fail-with-body --header "Authorization: Bearer $THERMAE_TOKEN")

# Prints a part of an answer.
field() { python3 -c "import json, sys; print(str(json.load(sys.stdin)$1).strip())"; }

# The program that a model wrote, as JSON.
program=$(python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))' <<'PROGRAM'
for to, amount in [("rent", 900), ("lottery", 700)]:
    try:
        print(f"{to}: {await pay(to=to, amount=amount)}")
    except ToolError as error:
        print(f"{to}: {error}")
PROGRAM
)

# The job, whose calls of `pay` all wait for a decision.
run=$(curl "${options[@]}" "$runs?wait=30s&until=call" --json @- <<JOB
{
  "code": $program,
  "tools": [{"name": "pay"}],
  "capabilities": [{"pattern": "pay", "approval": {}}]
}
JOB
)
id=$(field '["id"]' <<< "$run")

# Whether a call is in a list of the run, `approvals` or `calls`. If so, `call` is its id, and `asked` what it says.
first() {
  grep --quiet "\"$1\":\[{" <<< "$run" || return 1
  call=$(field "['$1'][0]['call']" <<< "$run")
  asked="$(field "['$1'][0]['tool']" <<< "$run") $(field "['$1'][0]['arguments']" <<< "$run")"
}

while [ "$(field '["state"]' <<< "$run")" = underway ]; do
  if first approvals; then
    echo "waits for approval: $asked"
    case "$asked" in
      *rent*) decision='{"decision": "approve"}' ;;
      *) decision='{"decision": "deny", "reason": "no gambling"}' ;;
    esac
    curl "${options[@]}" "$runs/$id/calls/$call/decision" --json "$decision" --output /dev/null
  elif first calls; then
    echo "paid: $asked"
    curl "${options[@]}" "$runs/$id/calls/$call" --json '{"ok": "R-900"}'
  fi
  run=$(curl "${options[@]}" "$runs/$id?wait=30s&until=call")
done
echo "--"
field '["outcome"]["stdout"]' <<< "$run"
