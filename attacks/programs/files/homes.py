"""
tries = "lists home directories, and looks for keys, tokens and histories in them"
wins = "keys to other machines, cloud passwords, what people typed"
guard = "the view has the interpreter's own folder and the links on the way to it, and nothing else of a home"
control = {}
held.found = []
open.found = { none = [[]] }
[bash]
skip = "it must run in the pool's own interpreter, whose folder is shown"
"""
# The folders and links on the way to the interpreter are shown.
way = [sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix)]
homes = ["/root"]
if os.path.isdir("/home"):
    homes += ["/home/" + name for name in os.listdir("/home")]
found = []
for home in homes:
    for folder in (home, home + "/.local", home + "/.local/share", home + "/bin"):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        # This is the interpreter's own folder, or is in it.
        if any((folder + "/").startswith(own + "/") for own in way[2:]):
            continue
        found += [folder + "/" + name for name in names if not any((own + "/").startswith(folder + "/" + name + "/") for own in way)]
observe("found", sorted(found))
