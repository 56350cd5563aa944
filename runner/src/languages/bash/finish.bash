# Ends a run that has not left the shell. The program's trap on EXIT is run now, as at the end of a script, and finds
# the program's status.
trap -p EXIT >|@text@
IFS= read -r -d '' __thermae_trap <@text@ || :
. @guard@
case $__thermae_trap in
  *'. @leave@'* | '') ;;
  *)
    eval "__thermae_trap=($__thermae_trap)"
    case ${__thermae##* } in
      0) eval "${__thermae_trap[2]}" ;;
      *) (exit "${__thermae##* }") || eval "${__thermae_trap[2]}" ;;
    esac ;;
esac
. @report@
