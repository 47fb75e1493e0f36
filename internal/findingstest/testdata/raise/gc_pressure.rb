wait_for_go
HEAP = Array.new(150_000) { |i| [i] }
3.times do |i|
  named("worker-#{i}") do
    keep = []
    loop do
      500.times { keep << "x" * 50 }
      keep = [] if keep.size > 40_000
    end
  end
end
ready
