# Put before every attack that is in bash: helpers that record what the attack finds.

# Record an observation: a name and a text.
observe() {
  local text=${2//\\/\\\\}
  text=${text//\"/\\\"}
  printf '\nEVIDENCE {"%s": "%s"}\n' "$1" "${text//$'\n'/\\n}"
}

# Do something, and record its exit status.
attempt() {
  local name=$1
  shift
  ("$@") >/dev/null 2>&1
  observe "$name" $?
}

observe container "$(readlink /proc/self/ns/net) $(stat -c %d /)"
