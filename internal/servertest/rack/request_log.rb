# What an application knows of its requests, jobs and statements: a line for each in the file REQUEST_LOG, its fields between tabs:
# kind, begin and end (CLOCK_MONOTONIC, ns), the native thread's id, and what it was: R: endpoint and path, J: class and
# what with arguments, S: the statement. The end of a line is a vertical tab.
module RequestLog
  LOG = File.open(ENV.fetch("REQUEST_LOG"), File::WRONLY | File::APPEND | File::CREAT)

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)

  # After a fork Ruby 3.1 still says the parent's for the main thread.
  def self.thread = Thread.current == Thread.main ? Process.pid : Thread.current.native_thread_id

  def self.write(kind, from, to, *rest)
    LOG.syswrite([kind, from, to, thread, *rest.map { |s| s.to_s.gsub("\n", "\v").gsub(/[ \t\r\f]+/, " ") }].join("\t") + "\n")
  end

  # Logs requests, whose endpoint is what the application has set.
  class Requests
    def initialize(app) = @app = app

    def call(env)
      from, Thread.current[:endpoint] = RequestLog.now, nil
      path = env["PATH_INFO"].dup
      path << "?#{env["QUERY_STRING"]}" unless env["QUERY_STRING"].to_s.empty?
      @app.call(env)
    ensure
      RequestLog.write("R", from, RequestLog.now, Thread.current[:endpoint], path)
    end
  end

  # Logs jobs of Sidekiq.
  class Jobs
    def call(_worker, job, _queue)
      from = RequestLog.now
      yield
    ensure
      RequestLog.write("J", from, RequestLog.now, job["class"], "#{job["class"]} #{job["args"].inspect}")
    end
  end

  # Has Rails say what its actions and statements are.
  def self.rails
    ActiveSupport::Notifications.subscribe("process_action.action_controller") do |*, said|
      controller = said[:controller].underscore.delete_suffix("_controller")
      Thread.current[:endpoint] = "#{said[:method]} #{controller}##{said[:action]}"
    end
    ActiveSupport::Notifications.monotonic_subscribe("sql.active_record") do |_, from, to, _, said|
      write("S", (from * 1e9).to_i, (to * 1e9).to_i, said[:sql]) unless said[:cached]
    end
    require "pg"
    PG::Connection.prepend(Raw)
  end

  # Logs what Rails asks without saying so: whether a connection is still there.
  module Raw
    def query(sql, *)
      from = RequestLog.now
      super
    ensure
      RequestLog.write("S", from, RequestLog.now, sql)
    end
  end
end
