# The page that waits for a slow statement.
class StockController < ApplicationController
  def show
    slow = Order.connection.select_value("SELECT count(*) FROM orders, pg_sleep(0.03)")
    render plain: slow.to_s
  end
end
