# 4 threads that compute all the time.
def load_threads
  Array.new(4) do |i|
    ["cpu #{i}", -> { n = 0; loop { n += 1 } }]
  end
end
