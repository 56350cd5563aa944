# Runs when the shell is about to end. Writes its state down and starts it anew: restore.bash takes the state up.
__thermae=${__thermae:+$__thermae $__thermae_left}
unset -v __thermae_left
set +xv
{ set +o; shopt -p; trap -p; } >|@options@
set +eu
{ declare -p; declare -f; } >|@state@
exec "$BASH" @loop@
