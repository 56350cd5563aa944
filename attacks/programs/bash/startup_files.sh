: <<'SHEET'
tries = "leaves startup files, exported functions and variables for the next shell"
wins = "code in the next job"
guard = "the next job has a fresh home and a fresh environment, and its shell reads no startup files"
control = { mode = "apart" }
held.left = "0"
held.next = "clean"
open.left = "0"
open.next = { contains = "marked" }
SHEET
home=$HOME
[[ $ATTACK == *'"report"'* ]] && home=$(sed 's/.*"folder": *"\([^"]*\)".*/\1/' <<<"$ATTACK")
mark() { for name in .bashrc .bash_profile .profile .bash_login .bash_env; do echo 'MARK=marked' >"$home/$name" || return; done; }
attempt left mark
printf() { builtin printf "$@"; }
export BASH_ENV=$home/.bash_env MARK=marked
export -f printf
# --- the next job
home=$HOME
[[ $ATTACK == *'"report"'* ]] && home=$(sed 's/.*"folder": *"\([^"]*\)".*/\1/' <<<"$ATTACK")
found=$(ls -A "$home" | grep bash)${MARK-}$(type -t printf | grep -v builtin)${BASH_ENV-}
[[ $found && -e $home/.bashrc ]] && . "$home/.bashrc" && found+=${MARK-}
observe next "${found:-clean}"
