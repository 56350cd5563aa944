-- ARGV: 2 worker, 3 session ttl
if is_alive(ARGV[2]) then return 0 end
redis.call('ZREM', P .. 'wa', ARGV[2])
redis.call('HDEL', P .. 'w', ARGV[2])
redis.call('HDEL', P .. 'wc', ARGV[2])
redis.call('ZREM', P .. 'wu', ARGV[2])
lose_sessions(ARGV[2], ARGV[3])
return 1
