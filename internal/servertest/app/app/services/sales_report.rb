# What a report does: it loads, groups and sorts in Ruby.
class SalesReport
  def initialize(orders)
    @orders = orders
  end

  def rows
    @orders.group_by { |o| [o.state, o.customer_id % 10] }.map { |(state, group), orders| row(state, group, orders) }.sort_by { |r| -r[:cents] }
  end

  private

  def row(state, group, orders)
    { state: state, group: group, orders: orders.size, cents: orders.sum(&:total_cents), median: median(orders.map(&:total_cents)) }
  end

  def median(values)
    values.sort[values.size / 2]
  end
end
