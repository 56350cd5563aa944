-- ARGV: 2 tenant, 3 job, 4 pool, 5 attempt, 6 owner, 7 nonce, 8-11 end (outcome, mark, status, cost), 12-15 keep (see
-- set_terminal)
local tenant, job = ARGV[2], ARGV[3]
local attempt = tonumber(ARGV[5])
local key = job_key(tenant, job)
local record = load(key)

local won = false
if not record then
  make(key, attempt, attempt)
  won = true
elseif record.s == 'T' then
  if not ended_as(key, 8) then return ended(key) end
  give_credit(ARGV[4], tenant, job)
  return { 'won' }
elseif record.s == 'A' and attempt >= record.a then
  redis.call('HSET', key, 'a', attempt)
  won = true
else
  won = held_by(record, attempt, ARGV[6], ARGV[7])
end
if not won then return { 'superseded' } end

set_terminal(key, tenant, 8, 12)
give_credit(ARGV[4], tenant, job)
return { 'won' }
