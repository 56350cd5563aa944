"""
tries = "displays values of 30 MB in all"
wins = "an outcome that no queue accepts"
guard = "what a run may display is bounded; a note replaces the rest"
uncontrolled = "outside a sandbox, nothing is displayed"
aftermath = true
held.shown = 6
[bash]
skip = "programs in bash can't display anything"
"""
for number in range(6):
    display({"text/plain": "x" * (5 << 20)}, raw=True)
observe("shown", 6)
