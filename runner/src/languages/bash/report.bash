# Lets go of the program's streams and reports its status.
exec 0</dev/null 1>/dev/null 2>/dev/null
printf '%s\n' "$__thermae" >@status@
unset -v __thermae __thermae_trap
