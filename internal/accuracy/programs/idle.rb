# 10 threads that wait for work that never comes.
def load_threads
  $work = Queue.new
  Array.new(10) { |i| ["pool #{i}", -> { $work.pop }] }
end
