-- A mixed load: pages with views, one record, a new record, a report, a slow statement.
-- Connections are closed, so that both workers get their share.
local n = 0
wrk.headers["Connection"] = "close"
request = function()
  n = n + 1
  local k = n % 10
  if k < 4 then return wrk.format("GET", "/orders?page=" .. n % 40) end
  if k < 7 then return wrk.format("GET", "/orders/" .. 1 + n % 2000) end
  if k == 7 then return wrk.format("POST", "/orders", { ["Content-Type"] = "application/x-www-form-urlencoded", ["Connection"] = "close" }, "customer_id=" .. 1 + n % 200) end
  if k == 8 then return wrk.format("GET", "/report") end
  return wrk.format("GET", "/stock")
end

-- With an argument, each of wrk's threads ends wrk after so many answers, so that each run does the same work.
function init(args)
  local left = tonumber(args[1] or "")
  if not left then return end
  response = function(status)
    left = left - 1
    if status >= 400 then os.exit(1) end
    if left == 0 then os.exit(0) end
  end
end
