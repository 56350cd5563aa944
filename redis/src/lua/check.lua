-- Fails if Redis doesn't accept writes.
redis.call('SET', P .. 'check', now, 'PX', 1000)
return 1
