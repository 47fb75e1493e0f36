package live_test

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// concurrentBase is Ruby code that replaces those files of concurrent-ruby that the program does not load. It has only
// what the thread pool needs.
const concurrentBase = `
module Concurrent
  def self.monotonic_time; Process.clock_gettime(Process::CLOCK_MONOTONIC); end
  module Concern; module Logging; DEBUG = ERROR = 0; def log(*); end; end; end
  class RubyExecutorService
    FALLBACK_POLICIES = [:abort, :discard]
    attr_reader :name
    def initialize(opts = {}); @lock = Monitor.new; @name = opts[:name]; synchronize { ns_initialize(opts) }; end
    def synchronize(&block); @lock.synchronize(&block); end
    def post(*args, &task); synchronize { ns_execute(*args, &task) }; end
    def running?; true; end
    private def handle_fallback(*); raise "full"; end
  end
end
`

// jobServers is a program with the classes and variables in which three gems keep threads and jobs. The gems are
// GoodJob 4 (lib/good_job/scheduler.rb), Solid Queue 1 (lib/solid_queue/pool.rb and processes/poller.rb) and Que 2
// (lib/que/worker.rb and job_buffer.rb). Debian has no packages of these gems. The executors that they use are the real
// code of concurrent-ruby, which the test puts before this program.
const jobServers = `
require "monitor"
Dir.mkdir("solid_queue"); Dir.mkdir("solid_queue/processes"); Dir.mkdir("que")
File.write("solid_queue/pool.rb", <<'FILE')
module SolidQueue
  class Pool
    attr_reader :size
    def initialize(size); @size = size; end
    def post(execution)
      executor.post(execution) { |e| e.call }
    end
    def executor
      @executor ||= Concurrent::RubyThreadPoolExecutor.new(min_threads: 0, idletime: 60, max_threads: size, max_queue: size)
    end
  end
end
FILE
File.write("solid_queue/processes/poller.rb", <<'FILE')
module SolidQueue
  module Processes
    class Poller
      def start_loop; loop { sleep }; end
    end
  end
  class Worker < Processes::Poller
    attr_reader :pool
    def initialize(threads); @pool = Pool.new(threads); end
  end
  class Dispatcher < Processes::Poller; end
end
FILE
File.write("que/job_buffer.rb", <<'FILE')
module Que
  class JobBuffer
    attr_reader :priority_queues
    def initialize(priorities)
      @array, @mutex = [], Mutex.new
      @priority_queues = priorities.map { |p| [p, PriorityQueue.new(priority: p, job_buffer: self)] }.to_h
    end
    def push(*jobs)
      @mutex.synchronize do
        @array.concat(jobs)
        priority_queues.each_value { |q| q.populate { @array.shift if job_available?(q.priority) } }
      end
    end
    def shift(priority); priority_queues[priority].pop || @mutex.synchronize { @array.shift if job_available?(priority) }; end
    def job_available?(priority); (job = @array.first) && (priority.nil? || job <= priority); end
    def size; @array.size; end
    class PriorityQueue
      attr_reader :priority, :waiting
      def initialize(priority:, job_buffer:)
        @priority, @job_buffer, @waiting, @items, @mutex, @cv = priority, job_buffer, 0, [], Mutex.new, ConditionVariable.new
      end
      def pop
        @mutex.synchronize do
          loop do
            if item = @items.pop
              return item
            elsif @job_buffer.job_available?(priority)
              return false
            end
            @waiting += 1
            @cv.wait(@mutex)
            @waiting -= 1
          end
        end
      end
      def populate
        @mutex.synchronize { @waiting.times { (job = yield) ? (@items << job; @cv.signal) : break } }
      end
    end
  end
end
FILE
File.write("que/worker.rb", <<'FILE')
module Que
  class Worker
    def initialize(job_buffer:, priority: nil)
      @priority, @job_buffer = priority, job_buffer
      @thread = Thread.new { work_loop }
    end
    def work_loop
      while (job = @job_buffer.shift(@priority)) != false
        next if job.nil?
        sleep
      end
    end
  end
end
FILE
module GoodJob
  class Scheduler
    class ThreadPoolExecutor < ::Concurrent::RubyThreadPoolExecutor
      def counts
        synchronize { [@pool.length, @pool.length - @ready.length, @max_length] }
      end
    end
  end
end
%w[solid_queue/pool solid_queue/processes/poller que/job_buffer que/worker].each { |f| load "./#{f}.rb" }

executor = GoodJob::Scheduler::ThreadPoolExecutor.new(name: "GoodJob", max_threads: 5, max_queue: 5)
done = Queue.new
3.times { |i| executor.post { i == 1 ? done.pop : sleep } }
done << 1
sleep 0.001 until executor.counts == [3, 2, 5]
other = Concurrent::RubyThreadPoolExecutor.new(max_threads: 4)
4.times { other.post { sleep } }
full = SolidQueue::Pool.new(2)
3.times { full.post(-> { sleep }) }
fresh = SolidQueue::Worker.new(3)
[fresh, SolidQueue::Dispatcher.new].each { |p| Thread.new { p.start_loop } }
buffer = Que::JobBuffer.new([10, nil])
[10, nil, nil, nil].each { |p| Que::Worker.new(job_buffer: buffer, priority: p) }
waiting = -> { buffer.priority_queues.values.sum(&:waiting) }
sleep 0.001 until waiting.call == 4
buffer.push(*[20] * 5)
sleep 0.001 until waiting.call == 1 && buffer.size == 2
sleep 0.001 until (Thread.list - [Thread.current]).all? { |t| t.status == "sleep" }
$stdout.puts "ready"; $stdout.flush
sleep
`

// TestJobPools: ddtop must report how many threads, busy threads and queued jobs GoodJob, Solid Queue and Que have. It
// must leave out other pools of concurrent-ruby. It must report no pool for a dispatcher of Solid Queue, which runs no
// jobs.
func TestJobPools(t *testing.T) {
	ruby := rubytest.Program(t, "ruby", "ruby")
	path, err := exec.Command(ruby, "-e", `puts Gem::Specification.find_by_name("concurrent-ruby").full_gem_path`).Output()
	if err != nil {
		rubytest.Skip(t, "needs concurrent-ruby: apt-get install ruby-concurrent")
	}
	code, err := os.ReadFile(strings.TrimSpace(string(path)) + "/lib/concurrent-ruby/concurrent/executor/ruby_thread_pool_executor.rb")
	if err != nil {
		t.Fatal(err)
	}
	code = regexp.MustCompile(`(?m)^require .*$`).ReplaceAll(code, nil)
	script := "require 'fileutils'\nFileUtils.mkdir_p('concurrent/executor')\nFile.write('concurrent/executor/ruby_thread_pool_executor.rb', <<'END_OF_EXECUTOR')\n" +
		string(code) + "\nEND_OF_EXECUTOR\nrequire 'monitor'\n" + concurrentBase + "load './concurrent/executor/ruby_thread_pool_executor.rb'\n" + jobServers
	const no = sampler.UnknownCount
	want := []sampler.Pool{
		{Kind: sampler.PoolGoodJob, Threads: 3, Busy: 2, Max: 5, Queued: no, Clients: no},
		{Kind: sampler.PoolSolidQueue, Threads: 2, Busy: 2, Max: 2, Queued: 1, Clients: no},
		{Kind: sampler.PoolSolidQueue, Threads: 0, Busy: 0, Max: 3, Queued: 0, Clients: no},
		{Kind: sampler.PoolQue, Threads: 4, Busy: 3, Max: no, Queued: 2, Clients: no},
	}
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, script, rubytest.Options{})
		p.Expect(t, "ready")
		s := openLive(t, p.PID)
		var got []sampler.Pool
		for range 2 { // the second sample comes when the pools' workers are known
			x, err := s.Once(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = x.Queues.Pools
			slices.SortFunc(got, func(a, b sampler.Pool) int {
				return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Threads, a.Threads))
			})
			if !slices.Equal(got, want) {
				t.Errorf("%+v", got)
			}
		}
	})
}
