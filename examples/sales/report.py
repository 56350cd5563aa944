# A program that a model may write instead of sixteen separate tool calls. It calls the tool for every region and
# quarter, adds up the figures in the sandbox, and prints only the answer.
#
#   thermae run examples/sales/report.py --tools-file examples/sales/thermae.toml
#
# The tool `get_sales` is the command in thermae.toml beside this file. You don't need the option if you have trusted
# that file (`thermae trust`).
import asyncio

REGIONS = ["North", "South", "East", "West"]
QUARTERS = ["Q1", "Q2", "Q3", "Q4"]

totals = {}
for region in REGIONS:
    answers = await asyncio.gather(*(get_sales(region=region, quarter=quarter) for quarter in QUARTERS))
    totals[region] = sum(sale["revenue"] for sales in answers for sale in sales)

best = max(totals, key=totals.get)
print(f"{best} sold most: {totals[best]:,.2f} of {sum(totals.values()):,.2f} in all.")
