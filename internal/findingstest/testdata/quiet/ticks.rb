# Threads that wake a thousand times per second, and do something each time.
4.times do |i|
  named("ticker-#{i}") do
    loop do
      Array.new(100) { |n| "order #{n}" }.each { |text| text.split.last.to_i.to_s }.sort.join(",").hash
      sleep 0.001
    end
  end
end
ready
