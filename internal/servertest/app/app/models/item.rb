class Item < ApplicationRecord
  belongs_to :order
  validates :name, presence: true
  validates :quantity, :price_cents, numericality: { greater_than: 0 }
end
