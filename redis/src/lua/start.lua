-- ARGV (with '?': optional): 2 tenant, 3 job, 4 pool, 5 attempt, 6 owner, 7 nonce, 8 epoch, 9 only copy (1 or 0), 10
-- max attempts, 11 reply key?, 12 correlation id?, 13 lease, 14 ttl
local tenant, job = ARGV[2], ARGV[3]
local attempt, owner, nonce = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local only_copy = ARGV[9] == '1'
local key = job_key(tenant, job)
local record = load(key)

if not record then
  if not only_copy then return { 'resolve' } end
  make(key, attempt, ARGV[10], optional(ARGV[11]), optional(ARGV[12]))
elseif record.s == 'T' then
  return ended(key)
elseif not held_by(record, attempt, owner, nonce) then
  if attempt < record.a then return { 'stale' } end
  if record.s == 'S' then return { 'resolve' } end
  local knows = ARGV[8] == epoch and attempt == record.a and not record.d
  if not (knows or only_copy) then return { 'resolve' } end
end

local lease_until = now + tonumber(ARGV[13])
set_started(key, attempt, owner, nonce, lease_until)
keep(key, ARGV[14])
take_credit(ARGV[4], tenant, job, lease_until)
return { 'go' }
