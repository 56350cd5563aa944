"""An agent's program that can send money, but only small amounts, to known accounts, and three times at most.

It prints:

    rent: T1
    lottery: to in ["rent","power"] does not hold, because to is "lottery"
    rent: amount < 1000 does not hold, because amount is 20000
    power: T2
    power: T3
    power: all its calls are used: 3
    sent: rent 950, power 80, power 80
"""

from thermae import Sandbox, tool

SENT: list[str] = []


@tool
def transfer(to: str, amount: float) -> str:
    """Sends money. Returns the number of the transfer."""
    SENT.append(f"{to} {amount:.0f}")
    return f"T{len(SENT)}"


PROGRAM = """
async def pay(to, amount):
    try:
        print(f"{to}: {await transfer(to=to, amount=amount)}")
    except ToolError as error:
        print(f"{to}: {str(error).partition('(transfer): ')[2]}")

await pay("rent", 950)
await pay("lottery", 1)
await pay("rent", 20_000)
await pay("power", 80)
await pay("power", 80)
await pay("power", 80)
"""

with Sandbox(
    tools=[transfer],
    capabilities=[
        {
            "pattern": "transfer",
            "constraints": [
                {"path": "to", "op": "in", "value": ["rent", "power"]},
                {"path": "amount", "op": ">", "value": 0},
                {"path": "amount", "op": "<", "value": 1000},
            ],
            "max_calls": 3,
        }
    ],
) as box:
    print(box.run(PROGRAM, check=True).stdout, end="")
    print("sent:", ", ".join(SENT))
