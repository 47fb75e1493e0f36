# 3 threads: two that make garbage beside a heap worth marking, one that computes.
def load_threads
  kept = Array.new(50_000) { |i| [i.to_s] }
  $keep = kept
  garbage = lambda do
    loop { Array.new(200) { |i| "string #{i}" } }
  end
  [["garbage 0", garbage], ["garbage 1", garbage], ["cpu", -> { n = 0; loop { n += 1 } }]]
end
