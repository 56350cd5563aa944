#!/usr/bin/env bash
# An agent's program that can send money, but less than 1,000 at once, and three times at most.
#
# The fleet checks each call before it leaves the worker. So this process, which makes the transfers, hears only of
# those that are allowed, and needs no checks of its own.
# `THERMAE_URL` must name a gateway (docs/gateway.md), and `THERMAE_TOKEN` have its token or an API key.
#
# It prints:
#
#     sent 950 to rent
#     sent 80 to power
#     sent 35 to water
#     --
#     rent: sent
#     car: amount < 1000 does not hold, because amount is 20000
#     power: sent
#     water: sent
#     phone: all its calls are used: 3
set -euo pipefail

runs="$THERMAE_URL/v1/runs"
options=(--silent --show-error --fail-with-body --header "Authorization: Bearer $THERMAE_TOKEN")

# Prints a part of an answer.
field() { python3 -c "import json, sys; print(str(json.load(sys.stdin)$1).strip())"; }

# The program that a model wrote, as JSON.
program=$(python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))' <<'PROGRAM'
for to, amount in [("rent", 950), ("car", 20_000), ("power", 80), ("water", 35), ("phone", 20)]:
    try:
        print(f"{to}: {await transfer(to=to, amount=amount)}")
    except ToolError as error:
        print(f"{to}: {str(error).partition('(transfer): ')[2]}")
PROGRAM
)

# The job: the program, the tool that it can call, and which calls of it are allowed.
run=$(curl "${options[@]}" "$runs?wait=30s&until=call" --json @- <<JOB
{
  "code": $program,
  "tools": [{"name": "transfer"}],
  "capabilities": [
    {
      "pattern": "transfer",
      "constraints": [{"path": "amount", "op": ">", "value": 0}, {"path": "amount", "op": "<", "value": 1000}],
      "max_calls": 3
    }
  ]
}
JOB
)
id=$(field '["id"]' <<< "$run")

# Makes each transfer that the program asks for, until the run has ended.
while [ "$(field '["state"]' <<< "$run")" = underway ]; do
  if grep --quiet '"calls":\[{' <<< "$run"; then
    call=$(field '["calls"][0]["call"]' <<< "$run")
    amount=$(field '["calls"][0]["arguments"]["amount"]' <<< "$run")
    echo "sent $amount to $(field '["calls"][0]["arguments"]["to"]' <<< "$run")"
    curl "${options[@]}" "$runs/$id/calls/$call" --json '{"ok": "sent"}'
  fi
  run=$(curl "${options[@]}" "$runs/$id?wait=30s&until=call")
done
echo "--"
field '["outcome"]["stdout"]' <<< "$run"
