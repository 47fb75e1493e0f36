# A batch: one thread computes all the time. Others read rows for it, wait for the GVL behind it, and are always ahead.
rows = SizedQueue.new(64)
3.times do |i|
  named("loader-#{i}") do
    loop do
      sleep 0.005
      rows.push(Array.new(50) { |n| n * 1.5 })
    end
  end
end
named("model") do
  loop do
    row = rows.pop
    2000.times { row.sum { |x| Math.sqrt(x) } }
  end
end
ready
