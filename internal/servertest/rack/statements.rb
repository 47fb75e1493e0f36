# Asks a database or another service, as a program does that calls its client itself: ruby statements.rb LIBRARY PORT. Each thing
# that is asked is logged: kind S, and what was asked. Kind N is asking something of which nothing can be told, or nothing; M is
# asking it for a part of the time. All of them hold the secret in literals and arguments.
require_relative "request_log"

LIBRARY, PORT = ARGV
SECRET = "hunter2secret"

def log(kind, what)
  from = RequestLog.now
  yield
ensure
  RequestLog.write(kind, from, RequestLog.now, what)
end

# asks calls what is asked with its words.
def asks(sql) = log("S", sql) { yield sql }

def pg(db)
  sleeping = "SELECT pg_sleep(0.02), '#{SECRET}' AS it -- #{SECRET}"
  asks("#{sleeping}\nFROM generate_series(1, 1) a") { |sql| db.exec(sql) }
  asks("SELECT pg_sleep(0.02) WHERE $1 <> 'a' AND 17 <> ALL(ARRAY[1, 2])") { |sql| db.exec_params(sql, [SECRET]) }
  asks("SELECT pg_sleep(0.02), $q$#{SECRET}$q$ AS b") { |sql| db.query(sql) }
  asks("/* #{SECRET} */ SELECT pg_sleep(0.02) AS c") { |sql| db.sync_exec(sql) }
  asks("SELECT pg_sleep(0.02) AS d WHERE 'x' NOT IN ('#{SECRET}', 'b')") { |sql| db.async_exec(*[sql]) }
  asks("SELECT pg_sleep(0.02) AS e") { |sql| db.send(:exec, sql) }
  asks("SELECT pg_sleep(0.02) AS f") { |sql| [db].each { |d| d.exec(sql) { } } }
  log("M", "SELECT 1 AS g") { db.exec("SELECT 1 AS g") { log("N", "in the block of a statement") { sleep 0.01 } } }
  log("N", "by name") { db.exec_prepared("by name", [SECRET]) }
end

def mysql2(db)
  asks("SELECT SLEEP(0.02), \"#{SECRET}\" AS a") { |sql| db.query(sql) }
  asks("SELECT SLEEP(0.02) AS b FROM (SELECT 1) t WHERE 0x#{SECRET.unpack1("H*")} = x'#{SECRET.unpack1("H*")}'") { |sql| db.query(sql, as: :array).to_a }
  asks("SELECT SLEEP(0.02) AS c -- #{SECRET}\n FROM (SELECT 1) t WHERE 'a' NOT IN ('#{SECRET}', \"it's\")") { |sql| db.query(sql) }
end

def counting(to) = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < #{to}) SELECT count(*), '#{SECRET}' AS a"

def sqlite3(db)
  asks("#{counting(20_000)} FROM c") { |sql| db.execute(sql) }
  asks("#{counting(20_001)} FROM c WHERE x <> ?") { |sql| db.execute(sql, [SECRET]) }
  asks("#{counting(20_002)}, 1 AS b FROM c") { |sql| db.get_first_value(sql) }
end

def sequel(db)
  asks("SELECT pg_sleep(0.02), '#{SECRET}' AS \"it\"") { |sql| db[sql].all }
  asks("SELECT pg_sleep(0.02) AS \"a\" FROM (SELECT 1) AS \"t1\" WHERE ('#{SECRET}' != 'b')") do
    db.from(Sequel.lit("(SELECT 1) AS \"t1\"")).where(Sequel.lit("'#{SECRET}' != 'b'")).select(Sequel.lit("pg_sleep(0.02) AS \"a\"")).all
  end
end

def redis(r)
  asks("GET") { r.get("a#{SECRET}") }
  asks("SET") { r.set("a", SECRET) }
  asks("AUTH") { r.auth(SECRET) }
  asks("BLPOP") { r.blpop(SECRET, timeout: 0.05) }
  asks("MSET and 2 more") { r.pipelined { |p| p.mset("a", SECRET, "b", SECRET); p.get(SECRET); p.del(SECRET) } }
  asks("EVAL") { r.eval("return KEYS[1]", keys: [SECRET], argv: [SECRET]) }
  log("N", "no command of Redis'") { r.call([SECRET, SECRET]) rescue Redis::CommandError }
end

def dalli(c)
  asks("set") { c.set("a", SECRET) }
  asks("get") { c.get("a#{SECRET}") }
  asks("delete") { c.delete(SECRET) }
end

def http
  to = "127.0.0.1:#{PORT}"
  asks("GET 127.0.0.1") { Net::HTTP.get(URI("http://user:#{SECRET}@#{to}/#{SECRET}?token=#{SECRET}")) }
  asks("POST 127.0.0.1") { Net::HTTP.post(URI("http://#{to}/#{SECRET}"), SECRET, "Authorization" => SECRET) }
  asks("PUT 127.0.0.1") { Net::HTTP.start("127.0.0.1", PORT) { |h| h.request(Net::HTTP::Put.new("/#{SECRET}"), SECRET) } }
end

# racing asks one statement after another, each with its thread's name and its own number.
def racing(db, thread)
  n = 0
  loop { db.exec("SELECT '#{thread.name}', #{n += 1}") }
end

if LIBRARY == "pg" && ARGV[2] == "race"
  require "pg"
  4.times do |i|
    Thread.new do
      Thread.current.name = "asker #{i}"
      racing(PG.connect(host: "127.0.0.1", port: PORT, user: "ddtop", dbname: "postgres"), Thread.current)
    end
  end
  4.times { RequestLog.write("S", 0, 0, "racing") }
  loop { sleep 0.003; GC.start; GC.compact if rand < 0.3 }
end

work =
  case LIBRARY
  when "pg"
    require "pg"
    lambda do
      db = PG.connect(host: "127.0.0.1", port: PORT, user: "ddtop", dbname: "postgres")
      db.prepare("by name", "SELECT pg_sleep(0.02) WHERE $1::text <> 'x'")
      -> { pg(db) }
    end
  when "mysql2"
    require "mysql2"
    -> { db = Mysql2::Client.new(host: "127.0.0.1", port: PORT.to_i, username: "root"); -> { mysql2(db) } }
  when "sqlite3"
    require "sqlite3"
    -> { db = SQLite3::Database.new(":memory:"); -> { sqlite3(db) } }
  when "sequel"
    require "sequel"
    -> { db = Sequel.connect("postgres://ddtop@127.0.0.1:#{PORT}/postgres"); -> { sequel(db) } }
  when "redis"
    require "redis"
    -> { r = Redis.new(url: "redis://127.0.0.1:#{PORT}/0", password: SECRET); -> { redis(r) } }
  when "dalli"
    require "dalli"
    -> { c = Dalli::Client.new("127.0.0.1:#{PORT}"); -> { dalli(c) } }
  when "net/http"
    require "net/http"
    -> { -> { http } }
  end

$stdout.sync = true
puts "ready"
2.times.map { |i| Thread.new { once = work.call; loop { once.call } }.tap { |t| t.name = "asker #{i}" } }.each(&:join)
