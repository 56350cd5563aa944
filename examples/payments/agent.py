# A program that a model may write: it pays five bills, and goes on if a payment is refused.
#
# Run it with limits on what it may pay, which the fleet checks before each call:
#
#   thermae run examples/payments/agent.py --tools-file examples/payments/thermae.toml \
#     --capabilities examples/payments/small.json
#
# With `ask.json` in place of `small.json`, each payment waits for a person's yes.
for to, amount in [("rent", 950), ("car", 20_000), ("power", 80), ("water", 35), ("phone", 20)]:
    try:
        print(f"{to}: {await transfer(to=to, amount=amount)}", flush=True)
    except ToolError as error:
        print(f"{to}: {str(error).partition(': ')[2]}", flush=True)
