-- ARGV: 2 worker, 3 ttl, 4 the heartbeat, 5 its capacity, 6 ttl of running records, 7 session ttl, 8 number of running
-- jobs, then for each running job: tenant, job, attempt, nonce, pool, paused (1 or 0); then for each session: tenant,
-- name
-- The answer: the epoch, and the positions of the running jobs whose claim no longer stands
local worker, alive_until = ARGV[2], now + tonumber(ARGV[3])
local alive = is_alive(worker)
if not alive or redis.call('HGET', P .. 'wc', worker) ~= ARGV[5] then
  tell('workers')
end
if not alive or redis.call('HGET', P .. 'w', worker) ~= ARGV[4] then
  redis.call('ZADD', P .. 'wu', redis.call('INCR', P .. 'wq'), worker)
end
redis.call('ZADD', P .. 'wa', alive_until, worker)
redis.call('HSET', P .. 'w', worker, ARGV[4])
redis.call('HSET', P .. 'wc', worker, ARGV[5])

local answer = { epoch }
local at = 9
for i = 1, tonumber(ARGV[8]) do
  local tenant, job, attempt, nonce, pool = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4]
  local paused = ARGV[at + 5] == '1'
  at = at + 6
  local key = job_key(tenant, job)
  local record = load(key)
  local stands = false
  if not record then
    make(key, attempt, attempt)
    stands = true
  elseif record.s == 'S' then
    stands = held_by(record, attempt, worker, nonce)
  elseif record.s == 'A' then
    stands = attempt >= record.a
  end
  if stands then
    set_started(key, attempt, worker, nonce, alive_until)
    keep(key, ARGV[6])
    -- A job that goes on takes its credit again, even if there is none left.
    if paused then give_credit(pool, tenant, job) else take_credit(pool, tenant, job, alive_until) end
  else
    answer[#answer + 1] = i
  end
end

while ARGV[at] do
  local key = session_key(ARGV[at], ARGV[at + 1])
  at = at + 2
  local w, g = unpack(redis.call('HMGET', key, 'w', 'g'))
  if not w or (w == worker and not g) then
    redis.call('HSET', key, 'w', worker, 'a', '1')
    redis.call('SADD', P .. 'ws:' .. worker, key)
    keep(key, ARGV[7])
    keep(P .. 'ws:' .. worker, ARGV[7])
  end
end
return answer
