"""
tries = "changes the interpreter for later jobs: import hooks and paths, the recursion limit, decimal precision, an audit hook, a builtin"
wins = "code of its own that runs in the next job"
guard = "each job is a fork of an interpreter in which no job has run"
control = { mode = "same" }
held.changed = true
held.path = false
held.hooks = 0
held.precision = 28
held.recursion = { none = [777] }
held.builtin = false
held.audit = 0
open.path = true
open.hooks = 1
open.precision = 3
open.builtin = true
"""
import builtins
import decimal

heard = builtins.heard = []
sys.path.append("/workspace/evil")
sys.meta_path.append(type("Finder", (), {"find_spec": staticmethod(lambda *_: None)}))
decimal.getcontext().prec = 3
sys.setrecursionlimit(777)
sys.addaudithook(lambda event, _: heard.append(event))
builtins.evil = lambda: None
observe("changed", True)
# --- the next job
import builtins
import decimal

observe("path", "/workspace/evil" in sys.path)
observe("hooks", sum(getattr(finder, "__name__", "") == "Finder" for finder in sys.meta_path))
observe("precision", decimal.getcontext().prec)
observe("recursion", sys.getrecursionlimit())
observe("builtin", hasattr(builtins, "evil"))
observe("audit", len(getattr(builtins, "heard", ())))
