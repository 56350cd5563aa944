-- Budgeted bytes of the outcomes that were recorded in this hour and in the one before.
local function spent(moment)
  return tonumber(redis.call('HGET', window_key(moment), '') or 0)
end
return spent(now) + spent(now - hour)
