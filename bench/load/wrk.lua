-- SPDX-License-Identifier: MIT
-- Without a script, wrk sends requests for a given time and counts the answers. With this script, wrk
-- sends a given number of requests and counts the answers by status and length:
--     wrk -t1 -d SECONDS -s wrk.lua URL -- REQUESTS AT-ONCE [FORM]
-- wrk must have one thread: each thread has its own counts, and the first thread that finishes ends wrk.
local ffi = require("ffi")
ffi.cdef([[int kill(int, int); int getpid(void);]])
local SIGINT, NEVER = 2, 3600 * 1000
local thread

-- Global variables, because `done` runs in another Lua state and reads them with thread:get().
left, due, closes, at_once = 0, 0, 0, 1
statuses, lengths = {}, {}

function setup(only)
   thread = only
end

function init(arguments)
   left, at_once = tonumber(arguments[1]), tonumber(arguments[2])
   due = left
   if arguments[3] then
      wrk.method, wrk.body = "POST", arguments[3]
      wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
   end
   if at_once > 1 then
      local requests = wrk.format():rep(at_once)
      request = function() return requests end
   end
end

-- Returns the milliseconds that a connection waits before its next request. After the last request
-- all connections wait without end, so that each request can get its answer.
function delay()
   due = due - at_once
   return due < 0 and NEVER or 0
end

function response(status, headers, body)
   statuses[status] = (statuses[status] or 0) + 1
   lengths[#body] = (lengths[#body] or 0) + 1
   local connection = headers["Connection"] or headers["connection"]
   if connection and connection:lower() == "close" then
      closes = closes + 1
   end
   left = left - 1
   if left == 0 then
      -- The main thread sleeps for SECONDS. The signal ends this sleep, and so the load.
      ffi.C.kill(ffi.C.getpid(), SIGINT)
      wrk.thread:stop()
   end
end

local function listed(counts)
   local found = {}
   for value, count in pairs(counts) do
      found[#found + 1] = string.format('"%d": %d', value, count)
   end
   return "{" .. table.concat(found, ", ") .. "}"
end

function done(summary, latency)
   local errors, times = summary.errors, {}
   local us = { max = latency.max, mean = latency.mean }
   for name, percent in pairs({ p50 = 50, p90 = 90, p99 = 99, p999 = 99.9 }) do
      us[name] = latency:percentile(percent)
   end
   for name, value in pairs(us) do
      times[#times + 1] = string.format('"%s": %.6f', name, value / 1000)
   end
   print(string.format(
      'JSON {"seconds": %.6f, "unasked": %d, "transferred_bytes": %d, "closes": %d, ' ..
      '"errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d}, ' ..
      '"statuses": %s, "lengths": %s, "latency_ms": {%s}}',
      summary.duration / 1e6, math.max(0, thread:get("due")), summary.bytes, thread:get("closes"),
      errors.connect, errors.read, errors.write, errors.timeout,
      listed(thread:get("statuses")), listed(thread:get("lengths")), table.concat(times, ", ")))
end
