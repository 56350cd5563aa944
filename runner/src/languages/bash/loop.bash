. @restore@; while read -r __thermae <@wake@; do . @begin@; case $# in 0) . "$BASH_ARGV0" ;; *) . @command@ ;; esac; { __thermae+=" $?"; set +xv; trap - DEBUG RETURN; } &>/dev/null; . @finish@; done
