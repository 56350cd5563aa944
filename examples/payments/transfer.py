"""A tool that sends money. Arguments as JSON on standard input, result (the number of the transfer) as JSON."""

import json
import sys

arguments = json.load(sys.stdin)
json.dump(f"T-{arguments['to']}-{arguments['amount']}", sys.stdout)
