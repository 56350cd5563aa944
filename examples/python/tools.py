"""One program in place of sixteen tool calls: it calls a tool for all regions and quarters, some of them at once.

It prints:

    East sold most: 71045 of 193540
    16 calls
"""

from thermae import Sandbox, tool

PRODUCTS = {"bath oil": 12.5, "towel": 8.0, "strigil": 31.0}
REGIONS = {"North": 3, "South": 5, "East": 7, "West": 2}


@tool
def get_sales(region: str, quarter: int) -> dict[str, float]:
    """Revenue of one region in one quarter, by product."""
    return {
        name: price * (40 * REGIONS[region] + 11 * quarter * n)
        for n, (name, price) in enumerate(PRODUCTS.items(), start=1)
    }


PROGRAM = """
import asyncio

totals = {}
for region in ["North", "South", "East", "West"]:
    quarters = await asyncio.gather(*(get_sales(region=region, quarter=quarter) for quarter in [1, 2, 3, 4]))
    totals[region] = sum(sum(products.values()) for products in quarters)
best = max(totals, key=totals.get)
print(f"{best} sold most: {totals[best]:.0f} of {sum(totals.values()):.0f}")
"""

with Sandbox(tools=[get_sales]) as box:
    result = box.run(PROGRAM, check=True)
    print(result.stdout, end="")
    print(result.usage.tool_calls, "calls")
