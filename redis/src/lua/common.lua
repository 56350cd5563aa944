-- The beginning of every script except epoch.lua. scripts.rs puts a line in front of it that sets `full`: whether the
-- script must not keep an outcome, because Redis is full. ARGV[1] is the prefix P of all keys:
--   <P>e            epoch: i(d), r(un id of Redis), b(egan)
--   <P>j:<t>/<job>  record, see below
--   <P>o:<t>/<job>  outcome of a job that ended, while it is kept whole
--   <P>r:<t>/<job>  digest of an outcome that the fleet's store keeps whole
--   <P>b:<window>   budgeted bytes of the outcomes that were recorded in that hour: by tenant, and '' for all
--   <P>p:<pool>     jobs that hold the pool's credit, by the moment when they lose it
--   <P>t:<tenant>   the same for a tenant, over all pools
--   <P>k:<t>/<key>  idempotency key: d(igest), j(ob)
--   <P>s:<t>/<name> session: w(orker), c(reator), a(nnounced), g(one)
--   <P>ws:<worker>  keys of the sessions that a worker was given
--   <P>c:<t>        counts of a tenant's tokens; <P>ce:<t>: when each can be forgotten
--   <P>w, <P>wc     heartbeats and capacities of the workers; <P>wa: until when each is alive
--   <P>wu           workers, by the number of their last change; <P>wq: the highest number
--   <P>l:<shard>    leader
--   <P>check        a key that check.lua writes, to see whether Redis accepts writes
--   <P>n            channel of notices
local P = ARGV[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local epoch, began = unpack(redis.call('HMGET', P .. 'e', 'i', 'b'))
if not epoch then
  return redis.error_reply('EPOCH the registry has no epoch')
end
local epoch_age = now - tonumber(began)

-- Decodes an optional argument: '' is none, and '=text' is a text.
local function optional(text)
  if text == '' then return nil end
  return string.sub(text, 2)
end

local function tell(news)
  redis.call('PUBLISH', P .. 'n', news)
end

-- Loads a record. nil: there is none. Its fields:
--   s(tate: A, S or T), a(ttempt), m(ax attempts), r(eply key), c(orrelation id), d(oubtful), g: the job's digest, and
--   the e(poch) in which it was written;
--   y: when a client took the run over for the last time, if one did;
--   if it is started: o(wner), n(once), l(ease until), k(illed: cancelled while it ran);
--   beside the record: p: the job's pool, t: how long it holds credit there without starting, v: its session;
--   if it has ended, these are removed (but r and c stay if there is y), and added are u: its status, z: when it ended,
--   h: its outcome's mark.
-- `taker` is then the client that has taken the run over, as scripts answer it: y, r and c?.
local taker = nil
local function load(key)
  local s, a, m, d, e, o, n, l, k, g, y =
    unpack(redis.call('HMGET', key, 's', 'a', 'm', 'd', 'e', 'o', 'n', 'l', 'k', 'g', 'y'))
  if not s then return nil end
  if y then
    local r, c = unpack(redis.call('HMGET', key, 'r', 'c'))
    taker = { tonumber(y), r, c and ('=' .. c) or '' }
  end
  return {
    s = s, a = tonumber(a), m = tonumber(m), o = o, n = n, l = tonumber(l or 0), k = k, g = g,
    d = s == 'A' and (d == '1' or e ~= epoch),
  }
end

-- Adds to an answer who has taken the run over. Scripts whose answer may lead to a message about the job end with this
-- (see scripts.rs).
local function with_taker(answer)
  for _, part in ipairs(taker or {}) do answer[#answer + 1] = part end
  return answer
end

local function outcome_key(key)
  return P .. 'o:' .. string.sub(key, #P + 3)
end

local function stored_key(key)
  return P .. 'r:' .. string.sub(key, #P + 3)
end

-- The answer about a job that has ended.
local function ended(key)
  local outcome = redis.call('GET', outcome_key(key))
  if outcome then return { 'terminal', outcome } end
  local x, u, z = unpack(redis.call('HMGET', key, 'x', 'u', 'z'))
  -- Earlier releases kept the outcome in the record itself.
  if x then return { 'terminal', x } end
  local digest = redis.call('GET', stored_key(key))
  if digest then return { 'stored', u or 'lost', tonumber(z or 0), digest } end
  return { 'tombstone', u or 'lost', tonumber(z or 0) }
end

local function keep(key, ttl)
  redis.call('PEXPIRE', key, ttl)
end

-- A record keeps 16 digits of the job's digest. '' means that the digest isn't known.
local function is_another(record, digest)
  return record.g and digest ~= '' and record.g ~= string.sub(digest, 1, 16)
end

local function make(key, a, m, reply, correlation, digest)
  redis.call('HSET', key, 'a', a, 'm', m, 'e', epoch)
  if reply then redis.call('HSET', key, 'r', reply) end
  if correlation then redis.call('HSET', key, 'c', correlation) end
  if digest and digest ~= '' then redis.call('HSET', key, 'g', string.sub(digest, 1, 16)) end
end

local function set_assigned(key, a)
  redis.call('HSET', key, 's', 'A', 'a', a, 'e', epoch)
  redis.call('HDEL', key, 'o', 'n', 'l', 'd')
end

local function set_started(key, a, owner, nonce, lease_until)
  redis.call('HSET', key, 's', 'S', 'a', a, 'o', owner, 'n', nonce, 'l', lease_until, 'e', epoch)
  redis.call('HDEL', key, 'd')
end

-- Takes `cost` from the budget of this hour. If there isn't enough left, takes nothing and returns false. An hour has
-- half of the budget, so that two neighbouring hours together stay within it.
local hour = 3600000
local function window_key(moment)
  return P .. 'b:' .. string.format('%.0f', math.floor(moment / hour))
end

local function spend(tenant, cost, tenant_budget, all_budget)
  local key = window_key(now)
  local fits = false
  if redis.call('HINCRBY', key, tenant, cost) <= tenant_budget / 2 then
    local all = redis.call('HINCRBY', key, '', cost)
    fits = all <= all_budget / 2
    if all == cost then keep(key, 2 * hour) end
    if not fits then redis.call('HINCRBY', key, '', -cost) end
  end
  if not fits then
    redis.call('HINCRBY', key, tenant, -cost)
    keep(key, 2 * hour)
  end
  return fits
end

-- Ends a job. ARGV[e] to ARGV[e + 3] are outcome, mark, status and cost. ARGV[k] to ARGV[k + 3] are ttl of the outcome,
-- ttl of the record, budget of the tenant and budget of all tenants. While Redis is full, no outcome is kept.
local function set_terminal(key, tenant, e, k)
  redis.call('HSET', key, 's', 'T', 'h', ARGV[e + 1], 'u', ARGV[e + 2], 'z', now)
  if taker then
    redis.call('HDEL', key, 'e', 'o', 'n', 'l', 'd', 'k', 'p', 't', 'v')
  else
    redis.call('HDEL', key, 'e', 'o', 'n', 'l', 'd', 'k', 'r', 'c', 'p', 't', 'v')
  end
  keep(key, ARGV[k + 1])
  if not full and tonumber(ARGV[k]) > 0
    and spend(tenant, tonumber(ARGV[e + 3]), tonumber(ARGV[k + 2]), tonumber(ARGV[k + 3])) then
    redis.call('SET', outcome_key(key), ARGV[e], 'PX', ARGV[k])
  end
end

-- Whether the outcome at ARGV[e] is the one that was recorded.
local function ended_as(key, e)
  local h, x = unpack(redis.call('HMGET', key, 'h', 'x'))
  return h == ARGV[e + 1] or x == ARGV[e]
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

-- Why a session with these fields w and g is gone; nil or false if it isn't.
local function why_gone(w, g)
  return g or (not is_alive(w) and 'lost')
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
