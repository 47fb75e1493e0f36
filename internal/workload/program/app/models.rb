# frozen_string_literal: true

require_relative "../lib/db"
require_relative "../lib/tally"

# An order of the shop.
class Order
  attr_reader :id, :lines

  OPEN_ORDERS = "SELECT id, state, total FROM orders WHERE state = 'open' AND user_id = $1"

  def self.find_open(user_id)
    count, = DB.query("#{OPEN_ORDERS} /* #{user_id} */")
    Array.new(count.to_i) { |i| new((user_id * 100) + i) }
  end

  def initialize(id)
    @id = id
    @lines = Array.new(60) { |i| { sku: "sku-#{(id + i) % 97}", price: ((id * 7) + i) % 1000, quantity: i % 4 } }
  end

  def total
    lines.map { |line| line[:price] * line[:quantity] }.reduce(0, :+)
  end

  def store
    DB.query("INSERT INTO orders (id, state) VALUES (#{id}, 'open')")
  end

  def ship
    DB.query("UPDATE orders SET state = 'shipped' WHERE id = #{id}")
  end
end

# The stock. All reservations of the shop go through one lock, held during a query: the pile-up of phase "mutex".
class Stock
  LOCK = Mutex.new

  def reserve(order)
    asked = Tally.now_ns
    LOCK.synchronize do
      Tally.current.lock_ns += Tally.now_ns - asked
      decrement(order)
    end
  end

  private

  def decrement(order)
    3.times { |i| DB.query("UPDATE stock SET quantity = quantity - 1 WHERE order_id = #{order.id} AND line = #{i}") }
  end
end
