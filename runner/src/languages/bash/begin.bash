# Gives the shell the program's parameters, variables and streams.
. @env@
exec 0<@stdin@ 1>|@stdout@ 2>|@stderr@
