# frozen_string_literal: true

require_relative "../app/jobs"
require_relative "../app/reports"
require_relative "../app/shop"

# A role is what a named thread does: run(phase) works until the phase is over.
class Role
  attr_reader :name

  def initialize(name)
    @name = name
  end

  private

  def random
    Thread.current[:random]
  end
end

# Answers requests, as a thread of a server does.
class HttpServer < Role
  def initialize(name, app)
    super(name)
    @app = app
  end

  def run(phase)
    while (request = phase.requests.pop)
      @app.call(request)
      Tally.current.requests += 1
    end
  end
end

# Works off background jobs; in some phases worker-1 or all workers have something worse to do.
class Worker < Role
  def initialize(name, index, terminal)
    super(name)
    @index = index
    @terminal = terminal
    @importer = CatalogImporter.new
  end

  def run(phase)
    return import(phase) if phase.is?("gc") && @index < 2
    return settle(phase) if phase.is?("stall") && @index.zero?

    work(phase)
  end

  private

  def work(phase)
    while (order_id = phase.jobs.pop)
      ShippingJob.new.perform(order_id)
      Tally.current.jobs += 1
    end
  end

  def import(phase)
    @importer.import { phase.over? }
  end

  def settle(phase)
    job = SettlementJob.new(@terminal)
    until phase.over?
      job.perform(60 + random.rand(60))
      sleep(0.01)
    end
  end
end

# Builds a small report now and then; in phase "hog" a big one without end.
class ReportRunner < Role
  def run(phase)
    reports = Reports.new(random)
    return reports.build { phase.over? } if phase.is?("hog")

    until phase.over?
      rounds = 0
      reports.build { (rounds += 1) > 5 }
      sleep(0.3)
    end
  end
end

# Expires cache entries.
class CacheRefresher < Role
  def initialize(name, cache)
    super(name)
    @cache = cache
  end

  def run(phase)
    until phase.over?
      @cache.refresh
      sleep(0.25)
    end
  end
end

# Stands for the customers: requests and jobs at a rate the service can bear when nothing is wrong with it.
class Traffic < Role
  REQUESTS_PER_SECOND = 200.0
  # A queue this long turns customers away, as a listen backlog does.
  BACKLOG = 64
  CUSTOMERS_PER_REPORT = 45

  # Customers come by the clock: when this thread was kept from running, those who came meanwhile are let in at once.
  def run(phase)
    due = now
    until phase.over?
      while due <= now
        offer(phase.requests) { |id| request(phase, id) }
        offer(phase.jobs) { |id| id } if random.rand < 0.4
        due += -Math.log(1.0 - random.rand) / REQUESTS_PER_SECOND
      end
      sleep([due - now, 0].max)
    end
  rescue ClosedQueueError
    nil # the phase ended between the question and the push
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def offer(queue)
    queue.push(yield(random.rand(100_000))) if queue.length < BACKLOG
  end

  def request(phase, id)
    return Shop.env("POST", "/checkout/#{id}") if phase.is?("mutex")
    return Shop.env("GET", "/reports/#{id}") if phase.is?("routes") && report?

    Shop.env("GET", "/orders/#{id}")
  end

  # One customer in so many asks for a report.
  def report?
    @customers = (@customers || 0) + 1
    @customers % CUSTOMERS_PER_REPORT == CUSTOMERS_PER_REPORT / 2
  end
end
