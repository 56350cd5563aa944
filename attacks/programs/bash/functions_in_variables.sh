: <<'SHEET'
tries = "runs what follows a function in an environment variable, and what is in the value of a name that bash reads by itself"
wins = "code from data (as in 2014's Shellshock)"
guard = "bash is a release that reads functions from variables of their own kind only"
uncontrolled = "each bash of the last ten years refuses it, with or without a sandbox"
held.run = "clean"
SHEET
observe run "$(env 'X=() { :;}; echo won' 'BASH_FUNC_y()=() { :;}; echo won' bash -c 'echo clean' 2>/dev/null)"
