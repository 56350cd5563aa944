# Takes up the state that leave.bash wrote down, if the shell was started anew, and reports the run that had ended.
# Variables that bash keeps itself refuse their value; that is no error.
trap 'exit 130' INT
{ . @state@; . @options@; } 2>/dev/null
. @guard@
RANDOM=${SRANDOM-$RANDOM}
if [[ ${__thermae-} ]]; then . @report@; fi
