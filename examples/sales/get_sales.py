"""A tool: sales of one region and quarter. Arguments as JSON on standard input, result as JSON on standard output."""

import json
import sys

PRODUCTS = [("bath oil", 12.5), ("towel", 8.0), ("strigil", 31.0)]
REGIONS = {"North": 3, "South": 5, "East": 7, "West": 2}

arguments = json.load(sys.stdin)
region, quarter = arguments["region"], int(arguments["quarter"][1])
if region not in REGIONS:
    sys.exit(f"no such region: {region}")

sales = []
for n, (product, price) in enumerate(PRODUCTS):
    units = 40 * REGIONS[region] + 11 * quarter * (n + 1)
    sales.append({"product": product, "units": units, "revenue": units * price})
json.dump(sales, sys.stdout)
