-- What every script begins with. ARGV[1] is the prefix of all keys:
--   <P>e            epoch: i(d), r(un id of Redis), b(egan)
--   <P>j:<t>/<job>  record, see below
--   <P>p:<pool>     jobs that hold the pool's credit, by the moment their lease passes
--   <P>t:<tenant>   the same of a tenant
--   <P>k:<t>/<key>  idempotency key: d(igest), j(ob)
--   <P>s:<t>/<name> session: w(orker), c(reator), a(nnounced), g(one)
--   <P>ws:<worker>  keys of the sessions that a worker was given
--   <P>w, <P>wc     heartbeats and capacities of the workers; <P>wa: alive until
--   <P>l:<shard>    leader
--   <P>n            channel of notices
local P = ARGV[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local epoch, began = unpack(redis.call('HMGET', P .. 'e', 'i', 'b'))
if not epoch then
  return redis.error_reply('EPOCH the registry has no epoch')
end
local epoch_age = now - tonumber(began)

-- Arguments that may be missing: '' is none, '=text' is text.
local function optional(text)
  if text == '' then return nil end
  return string.sub(text, 2)
end

local function tell(news)
  redis.call('PUBLISH', P .. 'n', news)
end

-- The record: s(tate: A, S or T), a(ttempt), m(ax attempts), r(eply key), c(orrelation id), d(oubtful), and the
-- e(poch) it was written in; of a started one o(wner), n(once), l(ease until); of an ended one x, the outcome;
-- beside it p, its pool, t, for how long it holds credit there unstarted, and v, its session. nil: there is none.
local function load(key)
  local s, a, m, d, e, o, n, l = unpack(redis.call('HMGET', key, 's', 'a', 'm', 'd', 'e', 'o', 'n', 'l'))
  if not s then return nil end
  return {
    s = s, a = tonumber(a), m = tonumber(m), o = o, n = n, l = tonumber(l or 0),
    d = s == 'A' and (d == '1' or e ~= epoch),
  }
end

local function outcome_of(key)
  return redis.call('HGET', key, 'x')
end

local function keep(key, ttl)
  redis.call('PEXPIRE', key, ttl)
end

local function make(key, a, m, reply, correlation)
  redis.call('HSET', key, 'a', a, 'm', m, 'e', epoch)
  if reply then redis.call('HSET', key, 'r', reply) end
  if correlation then redis.call('HSET', key, 'c', correlation) end
end

local function set_assigned(key, a)
  redis.call('HSET', key, 's', 'A', 'a', a, 'e', epoch)
  redis.call('HDEL', key, 'o', 'n', 'l', 'd')
end

local function set_started(key, a, owner, nonce, lease_until)
  redis.call('HSET', key, 's', 'S', 'a', a, 'o', owner, 'n', nonce, 'l', lease_until, 'e', epoch)
  redis.call('HDEL', key, 'd')
end

local function set_terminal(key, outcome)
  redis.call('HSET', key, 's', 'T', 'x', outcome, 'e', epoch)
  redis.call('HDEL', key, 'o', 'n', 'l', 'd')
end

local function held_by(record, a, owner, nonce)
  return record.s == 'S' and record.a == a and record.o == owner and record.n == nonce
end

local function job_key(tenant, job)
  return P .. 'j:' .. tenant .. '/' .. job
end

-- Credit.
local function count(key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  return redis.call('ZCARD', key)
end

local function take_credit(pool, tenant, job, untl)
  local id = tenant .. '/' .. job
  redis.call('ZADD', P .. 'p:' .. pool, untl, id)
  redis.call('ZADD', P .. 't:' .. tenant, untl, id)
end

local function give_credit(pool, tenant, job)
  local id = tenant .. '/' .. job
  redis.call('ZREM', P .. 't:' .. tenant, id)
  if pool and redis.call('ZREM', P .. 'p:' .. pool, id) == 1 then
    tell('credit ' .. pool)
  end
end

-- Sessions.
local function session_key(tenant, name)
  return P .. 's:' .. tenant .. '/' .. name
end

local function is_alive(worker)
  local untl = redis.call('ZSCORE', P .. 'wa', worker)
  return untl and tonumber(untl) > now
end

local function lose_sessions(worker, ttl)
  local index = P .. 'ws:' .. worker
  for _, key in ipairs(redis.call('SMEMBERS', index)) do
    local w, g = unpack(redis.call('HMGET', key, 'w', 'g'))
    if w == worker and not g then
      redis.call('HSET', key, 'g', 'lost')
      keep(key, ttl)
    end
  end
  redis.call('DEL', index)
end
