# Runs jobs of a queue, in two threads where it has threads: ruby queue.rb QUEUE COUNT. Each job is logged.
require_relative "request_log"

QUEUE, COUNT = ARGV[0], ARGV[1].to_i

# work is what all jobs do.
def work(what, ms)
  from = RequestLog.now
  sleep ms / 1000.0
ensure
  RequestLog.write("J", from, RequestLog.now, what.split.first, what)
end

def ms(n) = 5 + n * 7 % 30

case QUEUE
when "inline", "async", "perform_now", "delayed_job"
  require "active_job"
  require "active_record" if QUEUE == "delayed_job"
  ActiveJob::Base.logger = nil
  ActiveJob::Base.queue_adapter = QUEUE.to_sym unless QUEUE == "perform_now"

  class ShipOrder < ActiveJob::Base
    def perform(number, ms) = work("ShipOrder [#{number}, #{ms}]", ms)
  end

  module Reports
    class Daily < ActiveJob::Base
      queue_as :reports
      def perform(name, ms) = work("Reports::Daily [#{name.inspect}, #{ms}]", ms)
    end
  end
end

def in_threads = 2.times.map { |k| Thread.new { COUNT.times { |i| yield 2 * i + k } } }.each(&:join)

case QUEUE
when "inline", "async"
  in_threads do |n|
    ShipOrder.perform_later(n, ms(n))
    Reports::Daily.perform_later("day #{n}", ms(n))
  end
when "perform_now"
  in_threads do |n|
    ShipOrder.perform_now(n, ms(n))
    Reports::Daily.new("day #{n}", ms(n)).perform_now
  end
when "delayed_job"
  ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "jobs.sqlite3")
  require "delayed_job_active_record"
  ActiveRecord::Schema.verbose = false
  ActiveRecord::Schema.define do
    create_table :delayed_jobs do |t|
      t.integer :priority, :attempts, default: 0, null: false
      t.text :handler, null: false
      t.text :last_error
      t.datetime :run_at, :locked_at, :failed_at
      t.string :locked_by, :queue
      t.timestamps null: true
    end
  end

  class Mailer
    def self.deliver(number, ms) = work("Mailer.deliver [#{number}, #{ms}]", ms)
    def send!(number, ms) = work("Mailer#send! [#{number}, #{ms}]", ms)
  end

  class Newsletter
    def initialize(number) = @number = number
    def perform = work("Newsletter ", ms(@number))
  end

  COUNT.times do |n|
    ShipOrder.perform_later(n, ms(n))
    Mailer.delay.deliver(n, ms(n))
    Mailer.new.delay.send!(n, ms(n))
    Delayed::Job.enqueue(Newsletter.new(n))
  end
  Delayed::Worker.new(quiet: true).work_off(4 * COUNT)
when "resque"
  # What Resque 2.7 calls, with the names of its frames and variables.
  module Resque
    class Job
      attr_reader :queue, :payload
      def initialize(queue, payload) = (@queue, @payload = queue, payload)

      def perform
        job = Object.const_get(payload["class"])
        job_args = payload["args"]
        job.perform(*job_args)
      end
    end

    class Worker
      def work(jobs) = (work_one_job { } while (@jobs = jobs).any?)

      def work_one_job(job = nil, &block)
        return false unless job ||= reserve
        perform(job, &block)
      end

      def reserve = Job.new("default", @jobs.shift)

      def perform(job)
        job.perform
      ensure
        yield job if block_given?
      end
    end
  end

  class ArchiveOrder
    def self.perform(number, ms) = work("ArchiveOrder [#{number}, #{ms}]", ms)
  end

  module ActiveJob
    module QueueAdapters
      module ResqueAdapter
        class JobWrapper
          def self.perform(data) = work("Reports::Daily #{data["arguments"].inspect}", data["arguments"].last)
        end
      end
    end
  end
  jobs = COUNT.times.flat_map do |n|
    data = {"job_class" => "Reports::Daily", "job_id" => "id #{n}", "arguments" => ["day #{n}", ms(n)]}
    [{"class" => "ArchiveOrder", "args" => [n, ms(n)]}, {"class" => "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper", "args" => [data]}]
  end
  Resque::Worker.new.work(jobs)
when "que"
  # What Que 2.4 calls, so too.
  module Que
    Metajob = Struct.new(:job)

    class Worker
      def work_loop(jobs)
        while (metajob = jobs.shift)
          work_job(metajob)
        end
      end

      def work_job(metajob)
        job = metajob.job
        start = Time.now
        klass = Object.const_get(job.fetch(:job_class))
        instance = klass.new(job)
        instance.tap(&:_run)
        Time.now - start
      end
    end
  end

  class SendInvoice
    def initialize(attrs) = @attrs = attrs
    def _run = run(*@attrs[:args])
    def run(number, ms) = work("SendInvoice [#{number}, #{ms}]", ms)
  end
  Que::Worker.new.work_loop(COUNT.times.map { |n| Que::Metajob.new({priority: 100, id: n + 1, job_class: "SendInvoice", args: [n, ms(n)]}.freeze) })
end

$stdout.sync = true
sleep
