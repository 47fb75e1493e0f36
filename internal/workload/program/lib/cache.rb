# frozen_string_literal: true

require "monitor"

# An in-process cache behind a Monitor.
class Cache
  def initialize
    @monitor = Monitor.new
    @entries = {}
  end

  def fetch(key)
    @monitor.synchronize { @entries[key] ||= yield }
  end

  def refresh
    stale = @monitor.synchronize { @entries.keys.first(@entries.size / 2) }
    stale.each { |key| expire(key) }
  end

  def expire(key)
    @monitor.synchronize { @entries.delete(key) }
  end
end
