# Ends a run that has not left the shell. The program's trap on EXIT is run now, as at the end of a script.
trap -p EXIT >|@text@
IFS= read -r -d '' __thermae_trap <@text@ || :
. @guard@
case $__thermae_trap in
  *'. @leave@'* | '') ;;
  *) eval "__thermae_trap=($__thermae_trap)"; eval "${__thermae_trap[2]}" ;;
esac
. @report@
