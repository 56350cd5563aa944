"""
tries = "poisons the interpreter: `builtins`, `json`, `sys.modules`, import hooks and paths, codecs, `atexit`"
wins = "its own code in the next job"
guard = "each job's process is forked from a zygote that no job's bytes pass through"
control = { mode = "same" }
held.poisoned = 6
held.found = []
open.found = { none = [[]] }
"""
import atexit
import builtins
import codecs
import types

builtins.poisoned = True
json.poisoned = True
sys.modules["poisoned"] = types.ModuleType("poisoned")
sys.meta_path.append("poisoned")
codecs.register(lambda name: None)
sys.path.append("/workspace/poisoned")
atexit.register(lambda: None)
observe("poisoned", 6)
# --- the next job
import builtins

found = [name for name, there in [
    ("builtins", hasattr(builtins, "poisoned")),
    ("json", hasattr(json, "poisoned")),
    ("modules", "poisoned" in sys.modules),
    ("hooks", "poisoned" in sys.meta_path),
    ("path", "/workspace/poisoned" in sys.path),
    ("trace", sys.gettrace() is not None or sys.getprofile() is not None),
] if there]
observe("found", found)
if CONTROL:
    sys.meta_path.remove("poisoned")
