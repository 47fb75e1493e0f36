class ReportsController < ApplicationController
  def show
    render json: SalesReport.new(Order.limit(400).to_a).rows
  end
end
