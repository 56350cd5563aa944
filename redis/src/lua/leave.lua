-- ARGV: 2 worker, 3 session ttl
if redis.call('ZSCORE', P .. 'wa', ARGV[2]) then
  redis.call('ZADD', P .. 'wa', now, ARGV[2])
  tell('workers')
end
lose_sessions(ARGV[2], ARGV[3])
return 1
