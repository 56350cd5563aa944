. @restore@; while read -r __thermae <@wake@; do . @begin@; eval "$(<@code@)"; { __thermae+=" $?"; set +xv; } 2>/dev/null; . @finish@; done
