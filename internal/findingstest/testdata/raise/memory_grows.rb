# A cache without a limit: objects that stay, made by one method.
class Cache
  def initialize
    @kept = {}
  end

  def put(key)
    @kept[key] = ["value #{key}", key.to_s * 2]
  end
end
wait_for_go
cache, key = Cache.new, 0
named("worker") { loop { 1500.times { cache.put(key += 1) }; sleep 0.01 } }
ready
