class OrdersController < ApplicationController
  def index
    @orders = Order.page(params[:page].to_i).to_a
  end

  def show
    @order = Order.includes(:items, :customer).find(params[:id])
  end

  def create
    order = Order.new(customer: Customer.find(params.require(:customer_id)), state: "open")
    3.times { |i| order.items.build(name: "Item #{i}", quantity: 1 + i, price_cents: 250) }
    order.save!
    render json: order, status: :created
  end
end
