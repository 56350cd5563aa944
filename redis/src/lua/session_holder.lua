-- ARGV: 2 tenant, 3 session, 4 announce grace
local w, g = unpack(redis.call('HMGET', session_key(ARGV[2], ARGV[3]), 'w', 'g'))
-- Its worker may still announce it.
if not w then return { epoch_age < tonumber(ARGV[4]) and 'unsettled' or 'nobody' } end
local gone = why_gone(w, g)
if gone then return { 'gone', gone } end
return { 'worker', w }
