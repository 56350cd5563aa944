-- ARGV: 2 pool
return count(P .. 'p:' .. ARGV[2])
