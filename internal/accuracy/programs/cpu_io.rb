# A thread that computes, and one that waits for a descriptor for some milliseconds at a time.
def load_threads
  quiet, $keep = IO.pipe
  random = Random.new(1)
  [
    ["cpu", -> { n = 0; loop { n += 1 } }],
    ["io", lambda do
      loop do
        IO.select([quiet], nil, nil, 0.0005 + 0.003 * random.rand)
        n = 0
        n += 1 while n < 2000
      end
    end]
  ]
end
