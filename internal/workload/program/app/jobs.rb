# frozen_string_literal: true

require_relative "models"

# Ships an order in the background.
class ShippingJob
  def perform(order_id)
    Order.new(order_id).ship
    label(order_id)
  end

  private

  def label(order_id)
    Array.new(60) { |i| "#{order_id}-#{i}" }.join(",").sum
  end
end

# Reads a supplier's catalogue into many small objects: garbage by the million, and some of it stays for a while.
class CatalogImporter
  # How many rows stay referenced.
  KEEP = 120_000

  def initialize
    @rows = []
  end

  def import
    line = 0
    500.times { keep(parse(line += 1)) } until yield
    @rows = []
  end

  private

  def parse(line)
    { sku: "sku-#{line}", name: "Product #{line}", tags: ["tag-#{line % 31}", "tag-#{line % 37}"], price: line * 1.19 }
  end

  def keep(row)
    @rows[row[:sku].hash % KEEP] = row
  end
end

# Settles card payments with the terminal.
class SettlementJob
  def initialize(terminal)
    @terminal = terminal
  end

  def perform(milliseconds)
    @terminal.settle(milliseconds)
  end
end
