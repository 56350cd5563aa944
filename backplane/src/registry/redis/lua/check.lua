-- Whether it can be written.
redis.call('SET', P .. 'check', now, 'PX', 1000)
return 1
