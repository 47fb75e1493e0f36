# As many threads as asked for: 2 that compute, the others asleep or with short naps, 30 frames deep.
def deep(depth, &body)
  depth.zero? ? body.call : deep(depth - 1, &body)
end

def load_threads
  count = ARGV.find { |a| a =~ /\A\d+\z/ }.to_i
  Array.new(count) do |i|
    body =
      if i < 2 then -> { n = 0; loop { n += 1 } }
      elsif i.even? then -> { sleep }
      else -> { loop { sleep 0.05 } }
      end
    ["thread #{i}", -> { deep(26, &body) }]
  end
end
