: <<'SHEET'
tries = "raises each of its limits above what it was given, by the shell's own `ulimit`"
wins = "more processes, memory, descriptors or file size than it may have; core files"
guard = "raising a hard limit requires a capability, which the job lacks"
control = {}
held."*" = "1"
open.descriptors = "0"
# On gVisor, this limit bounds nothing: the container's control group does.
[runsc]
held.processes = "0"
SHEET
raise() { ulimit "-H$1" "$2" && ulimit "-S$1" "$2"; }
if [[ $ATTACK == *'"report"'* ]]; then
  ulimit -n 64
  said=$(raise n 65 2>&1)
  # Even root can't do it on a machine that has taken this capability from root.
  observe descriptors "$([[ $said == *'not permitted'* ]] && echo EPERM || echo "${said:-0}")"
  exit
fi
attempt descriptors raise n $(($(ulimit -Hn) + 1))
attempt processes raise u 100000
attempt data raise d unlimited
attempt address_space raise v unlimited
attempt file_size raise f unlimited
attempt core raise c unlimited
attempt locked raise l unlimited
attempt priority raise e 20
attempt real_time raise r 50
