"""
tries = "shows and returns values of 30 MB together"
wins = "an outcome that no queue takes"
guard = "what a run may show is bounded; the rest gives way to a note"
uncontrolled = "outside of a sandbox nothing is shown"
aftermath = true
held.shown = 6
"""
for number in range(6):
    display({"text/plain": "x" * (5 << 20)}, raw=True)
observe("shown", 6)
