# What a model writes in place of sixteen tool calls: call the tool for every region and quarter, all at once; add up here, in the
# sandbox; print only the answer.
#
#   thermae run examples/sales/report.py --tools-file examples/sales/thermae.toml
#
# `get_sales` is the command in thermae.toml beside this file. After `thermae trust examples/sales/thermae.toml` the
# option is not needed.
import asyncio

REGIONS = ["North", "South", "East", "West"]
QUARTERS = ["Q1", "Q2", "Q3", "Q4"]

totals = {}
for region in REGIONS:
    answers = await asyncio.gather(*(get_sales(region=region, quarter=quarter) for quarter in QUARTERS))
    totals[region] = sum(sale["revenue"] for sales in answers for sale in sales)

best = max(totals, key=totals.get)
print(f"{best} sold most: {totals[best]:,.2f} of {sum(totals.values()):,.2f} in all.")
