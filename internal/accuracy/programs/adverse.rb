# 10 threads that make what exact mode could stumble over, each its own: children, short threads, exceptions from outside, signals.
require "timeout"

def load_threads
  Thread.report_on_exception = false
  mutex, condition, queue = Mutex.new, ConditionVariable.new, Queue.new
  victim = nil
  trap(:USR1) { }
  [
    ["pass 0", -> { loop { Thread.pass } }],
    ["pass 1", -> { loop { 100.times { Thread.pass }; sleep 0.001 } }],
    ["children", -> { loop { Process.wait(fork { exit! }); sleep 0.01 } }],
    ["short threads", -> { loop { 5.times.map { Thread.new { sleep 0 } }.each(&:join); sleep 0.002 } }],
    ["killer", -> { loop { t = Thread.new { loop { Thread.pass } }; sleep 0.001; t.kill; t.join } }],
    ["victim", lambda {
      victim = Thread.current
      loop do
        loop { sleep 0.0002 }
      rescue IndexError
        nil
      end
    }],
    ["raiser", -> { loop { victim&.raise(IndexError, "x"); sleep 0.003 } }],
    ["timeouts", -> { loop { Timeout.timeout(0.001) { sleep } rescue nil } }],
    ["condition", -> { loop { mutex.synchronize { condition.wait(mutex, 0.002) }; queue << 1 } }],
    ["signals", -> { loop { queue.pop; Process.kill(:USR1, Process.pid); mutex.synchronize { condition.signal } } }]
  ]
end
