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

local function json(value)
   if type(value) ~= "table" then
      return tostring(value)
   end
   local found = {}
   for name, one in pairs(value) do
      found[#found + 1] = string.format('"%s": %s', name, json(one))
   end
   return "{" .. table.concat(found, ", ") .. "}"
end

function done(summary, latency)
   local errors, times = summary.errors, { max = latency.max / 1000, mean = latency.mean / 1000 }
   for name, percent in pairs({ p50 = 50, p90 = 90, p99 = 99, p999 = 99.9 }) do
      times[name] = latency:percentile(percent) / 1000
   end
   print("JSON " .. json({
      seconds = summary.duration / 1e6, unasked = math.max(0, thread:get("due")),
      transferred_bytes = summary.bytes, closes = thread:get("closes"), latency_ms = times,
      errors = { connect = errors.connect, read = errors.read, write = errors.write, timeout = errors.timeout },
      statuses = thread:get("statuses"), lengths = thread:get("lengths"),
   }))
end
