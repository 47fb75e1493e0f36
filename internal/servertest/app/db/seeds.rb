require_relative "../config/environment"
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:customers) { |t| t.string :name, null: false; t.string :email, null: false }
  create_table(:orders) do |t|
    t.references :customer, null: false
    t.string :state, null: false
    t.integer :total_cents, null: false, default: 0
    t.datetime :created_at, null: false, index: true # the load adds orders all the time
  end
  create_table(:items) do |t|
    t.references :order, null: false
    t.string :name, null: false
    t.integer :quantity, :price_cents, null: false
  end
end
now = Time.now
Customer.insert_all!((1..200).map { |i| { name: "Customer #{i}", email: "c#{i}@example.org" } })
Order.insert_all!((1..2000).map { |i| { customer_id: 1 + i % 200, state: %w[open paid sent][i % 3], total_cents: i * 7 % 9000, created_at: now - i } })
Item.insert_all!((1..6000).map { |i| { order_id: 1 + i % 2000, name: "Item #{i % 97}", quantity: 1 + i % 5, price_cents: 100 + i % 900 } })
