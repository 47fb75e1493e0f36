# frozen_string_literal: true

require_relative "models"
require_relative "reports"

# Shows a user's open orders.
class OrdersController
  def initialize(cache)
    @cache = cache
  end

  def show(user_id)
    prices = @cache.fetch(user_id % 50) { PriceList.new(user_id) }
    orders = Order.find_open(user_id)
    render(orders, prices)
  end

  private

  def render(orders, prices)
    OrdersView.new(orders, prices).to_html
  end
end

# Takes an order: reserves its stock, then stores it.
class CheckoutController
  def create(user_id)
    order = Order.new(user_id)
    Stock.new.reserve(order)
    order.store
  end
end

# Shows the report of a day, which is computed while the customer waits, and all others with him: pure Ruby, always in need
# of the GVL.
class ReportsController
  # The CPU time that a report takes, in ns.
  CPU_NS = 180_000_000

  def show(_day)
    done = Tally.cpu_ns + CPU_NS
    Reports.new(Thread.current[:random]).build { Tally.cpu_ns >= done }
  end
end

# What a user pays for things.
class PriceList
  def initialize(user_id)
    @discount = user_id % 10
  end

  def price(cents)
    cents * (100 - @discount) / 100
  end
end

# The page with the orders.
class OrdersView
  def initialize(orders, prices)
    @orders = orders
    @prices = prices
  end

  def to_html
    rows = @orders.map { |order| row(order) }
    "<table>#{rows.join}</table>"
  end

  private

  def row(order)
    cells = order.lines.map { |line| "<td>#{line[:sku]} #{money(@prices.price(line[:price]))}</td>" }
    "<tr>#{cells.join}<td>#{money(order.total)}</td></tr>"
  end

  def money(cents)
    format("%d.%02d", cents / 100, cents % 100)
  end
end
