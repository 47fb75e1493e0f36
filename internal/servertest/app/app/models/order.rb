class Order < ApplicationRecord
  belongs_to :customer
  has_many :items, autosave: true
  validates :state, inclusion: { in: %w[open paid sent] }
  before_save { self.total_cents = items.sum { |i| i.quantity * i.price_cents } if items.loaded? || new_record? }

  def self.page(number)
    includes(:customer, :items).order(created_at: :desc).offset(25 * number).limit(25)
  end

  def total
    items.sum { |i| i.quantity * i.price_cents } / 100.0
  end
end
