"""
tries = "lists people's homes, and looks for keys, tokens and histories in them"
wins = "keys to other machines, passwords of clouds, what people typed"
guard = "the view has an interpreter's own folder and the links on the way to it, and of a home nothing else"
control = {}
held.found = []
open.found = { none = [[]] }
"""
# What leads to the interpreter is there.
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
        # The interpreter's own folder.
        if any((folder + "/").startswith(own + "/") for own in way[2:]):
            continue
        found += [folder + "/" + name for name in names if not any((own + "/").startswith(folder + "/" + name + "/") for own in way)]
observe("found", sorted(found))
