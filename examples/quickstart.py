# A program as a model may write it. It runs in a fresh sandbox, without a network and without your files, and with
# limits on time and memory.
#
#   thermae run examples/quickstart.py
#
# sales/report.py gets the same figures from a tool, which is a command of yours that the program may call.
import csv

SALES = """\
region,quarter,revenue
North,Q1,7516.50
North,Q2,8853.00
North,Q3,10189.50
North,Q4,11526.00
South,Q1,11636.50
South,Q2,12973.00
South,Q3,14309.50
South,Q4,15646.00
East,Q1,15756.50
East,Q2,17093.00
East,Q3,18429.50
East,Q4,19766.00
West,Q1,5456.50
West,Q2,6793.00
West,Q3,8129.50
West,Q4,9466.00
"""

totals = {}
for row in csv.DictReader(SALES.splitlines()):
    totals[row["region"]] = totals.get(row["region"], 0) + float(row["revenue"])

best = max(totals, key=totals.get)
print(f"{best} sold most: {totals[best]:,.2f} of {sum(totals.values()):,.2f} in all.")
