# frozen_string_literal: true

require_relative "cache"
require_relative "card_terminal"
require_relative "database_server"
require_relative "db"
require_relative "phase"
require_relative "phase_log"
require_relative "roles"
require_relative "tally"

# The service: starts the threads and the database, goes through the phases, logs their edges.
class Service
  # The longest time that threads may take to leave a phase, in seconds: the slowest query and then some.
  DRAIN_SECONDS = 10.0
  # How often the scheduler looks whether it shall stop, in seconds.
  LOOK_SECONDS = 0.5

  def initialize(options)
    @options = options
    @log = PhaseLog.new(options.log)
    @parent = Process.ppid
    @terminal = CardTerminal.new
    @stopping = false
  end

  def run
    database = DatabaseServer::Launcher.new
    %w[TERM INT].each { |signal| trap(signal) { stop } }
    DB.port = database.port
    start_threads
    @log.write("ready", ruby: RUBY_VERSION, database_pid: database.pid, database_port: database.port,
                        keeps_lock_by: @terminal.how, threads: @threads.map(&:name))
    @scheduler = Thread.new { run_phases }
    @scheduler.name = "scheduler"
    @scheduler.join
    @log.write("exit")
    0
  ensure
    database.close if database
  end

  private

  def stop
    @stopping = true
    @scheduler.wakeup if @scheduler && @scheduler.alive?
  end

  def stopping?
    @stopping ||= @options.stop_with_parent && Process.ppid != @parent
  end

  def start_threads
    cache = Cache.new
    shop = Shop.new(cache)
    workers = [@options.threads / 2, 1].max
    roles = Array.new(@options.threads) { |i| HttpServer.new("http-#{i + 1}", shop) }
    roles += Array.new(workers) { |i| Worker.new("worker-#{i + 1}", i, @terminal) }
    roles += [ReportRunner.new("reports"), CacheRefresher.new("cache-refresher", cache), Traffic.new("traffic")]
    @gate = Gate.new(roles.size)
    @tallies = roles.map { Tally.new }
    @threads = roles.each_with_index.map { |role, i| start_thread(role, i) }
  end

  def start_thread(role, index)
    thread = Thread.new do
      Thread.current[:tally] = @tallies[index]
      Thread.current[:random] = Random.new(@options.seed + index)
      work_through(role)
    end
    thread.name = role.name
    thread.abort_on_exception = true
    thread
  end

  def work_through(role)
    phase = nil
    loop do
      phase = @gate.enter(phase)
      role.run(phase)
    end
  end

  def run_phases
    rounds = 0
    until stopping?
      @options.phases.each { |name| run_phase(name) unless stopping? }
      rounds += 1
      break if rounds == @options.rounds
    end
  end

  def run_phase(name)
    if name == "stall" && @terminal.how.nil?
      @log.write("skipped", phase: name, reason: "neither Fiddle with need_gvl nor Kernel#syscall is there")
      return sleep(LOOK_SECONDS)
    end
    phase = Phase.new(name)
    before = counters
    DB.query_ms = phase.query_ms
    @tallies.each(&:reset)
    @gate.open(phase)
    @log.write("begin", phase: name)
    wait_until(Tally.now_ns + (@options.phase_seconds * 1e9).to_i) if @options.phase_seconds
    wait_until(nil) unless @options.phase_seconds
    @log.write("end", { phase: name }.merge(since(before)))
    phase.finish
    drained = @gate.close(DRAIN_SECONDS)
    @log.write("drained", { phase: name, complete: drained }.merge(Tally.sum(@tallies)))
  end

  def wait_until(deadline_ns)
    until stopping?
      left = deadline_ns ? (deadline_ns - Tally.now_ns) / 1e9 : LOOK_SECONDS
      return if left <= 0

      sleep([left, LOOK_SECONDS].min)
    end
  end

  def counters
    { cpu_ns: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond),
      gc_count: GC.count, gc_minor: GC.stat(:minor_gc_count), gc_major: GC.stat(:major_gc_count) }
      .merge(gc_time)
  end

  # Ruby's own account of the time spent in GC, in process CPU time, 3.1 and later.
  def gc_time
    GC.stat.key?(:time) ? { gc_ns: GC.stat(:time) * 1_000_000 } : {}
  end

  def since(before)
    counters.map { |key, value| [key, value - before[key]] }.to_h
  end
end
