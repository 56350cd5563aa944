"""A conversation about data: a session keeps the variables of one program for the next, also after an error.

It prints:

    3 rows
    The code raised KeyError: 'price'
    total: 31
    East 19.0
"""

from thermae import Sandbox

STEPS = [
    "rows = [{'region': 'East', 'amount': 12}, {'region': 'West', 'amount': 12}, {'region': 'East', 'amount': 7}]\n"
    "print(len(rows), 'rows')",
    "print(sum(row['price'] for row in rows))",
    "print('total:', sum(row['amount'] for row in rows))",
    "east = [row['amount'] for row in rows if row['region'] == 'East']\nprint('East', float(sum(east)))",
]

with Sandbox() as box, box.session() as session:
    for step in STEPS:
        result = session.run(step)
        print(result.error.message if result.error else result.stdout.strip())
