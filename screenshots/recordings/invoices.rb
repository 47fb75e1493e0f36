# Makes monthly reports: each asks PostgreSQL for a month's invoices and writes them as JSON. Start it with the port of a
# PostgreSQL whose user is ddtop.
require "pg"
require "json"

QUERY = <<~SQL
  SELECT md5(i::text) AS number, i % 100 AS customer, i * 1.19 AS total, repeat('-', 400) AS lines
  FROM generate_series(1, 20000) AS i
SQL

# Month is the report of a month.
class Month
  def initialize(db) = @db = db

  def invoices = @db.sync_exec(QUERY)

  def report = JSON.generate(invoices.first(100))
end

3.times.map do |n|
  Thread.new do
    Thread.current.name = "reports #{n + 1}"
    db = PG.connect(host: "127.0.0.1", port: ARGV.fetch(0), user: "ddtop", dbname: "postgres")
    loop { Month.new(db).report; sleep 0.2 }
  end
end.each(&:join)
