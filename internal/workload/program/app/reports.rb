# frozen_string_literal: true

require_relative "../lib/tally"

# The nightly report, which some day somebody moved into the web process.
class Reports
  def initialize(random)
    @random = random
  end

  # build computes until the block says stop: pure Ruby, always in need of the GVL.
  def build
    totals = Hash.new(0)
    tally, cpu = Tally.current, Tally.cpu_ns
    until yield
      rows = load_rows
      summarize(rows, totals)
      tally.reports += 1
    end
    tally.report_cpu_ns += Tally.cpu_ns - cpu
    totals
  end

  private

  def load_rows
    Array.new(400) { |i| [i % 40, @random.rand(10_000), i] }
  end

  def summarize(rows, totals)
    rows.sort_by { |row| row[1] }.each { |day, cents, _| totals[day] += net(cents) }
  end

  def net(cents)
    tax = 0
    12.times { |i| tax += (cents * (i + 7)) % 19 }
    cents - tax
  end
end
