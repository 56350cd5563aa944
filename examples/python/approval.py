"""An agent's program that pays small amounts by itself, and asks a person about larger ones.

The first capability takes payments of less than 100. Those that it does not allow go to the second one, which wants a
yes. No capability allows 1,000 or more, so nobody is asked about that.

It prints:

    asked about pay {'to': 'rent', 'amount': 950}
    asked about pay {'to': 'lottery', 'amount': 500}
    power: P1
    rent: P2
    car: capability_refused
    lottery: approval_denied
    paid: power 80, rent 950
"""

from thermae import Approval, Sandbox, Verdict, tool

PAID: list[str] = []


@tool
def pay(to: str, amount: float) -> str:
    """Pays an amount, in euros. Returns the number of the payment."""
    PAID.append(f"{to} {amount:.0f}")
    return f"P{len(PAID)}"


def approve(asked: Approval) -> Verdict:
    """Stands for a person, to whom a program of yours would show the call."""
    print("asked about", asked.tool, asked.arguments)
    if asked.arguments is not None and asked.arguments["to"] == "rent":
        return True
    return "no gambling"


PROGRAM = """
for to, amount in [("power", 80), ("rent", 950), ("car", 20_000), ("lottery", 500)]:
    try:
        print(f"{to}: {await pay(to=to, amount=amount)}")
    except ToolError as error:
        print(f"{to}: {str(error).partition(':')[0]}")
"""

with Sandbox(
    tools=[pay],
    capabilities=[
        {"pattern": "pay", "constraints": [{"path": "amount", "op": "<", "value": 100}]},
        {"pattern": "pay", "constraints": [{"path": "amount", "op": "<", "value": 1000}], "approval": {}},
    ],
    approve=approve,
) as box:
    print(box.run(PROGRAM, check=True).stdout, end="")
    print("paid:", ", ".join(PAID))
