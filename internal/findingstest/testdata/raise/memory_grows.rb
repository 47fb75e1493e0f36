# A cache without a limit: objects that stay, made by one method. A call of it takes so long that the loop around it is no thousandth of
# the time: an instant of reading a stack counts the objects of some microseconds, whoever made them.
class Cache
  def initialize
    @kept = {}
  end

  def put(key)
    @kept[key] = Array.new(1000) { |i| "value #{key} #{i}" }.first(100)
  end
end
wait_for_go
cache, key = Cache.new, 0
named("worker") { loop { 8.times { cache.put(key += 1) }; sleep 0.01 } }
ready
