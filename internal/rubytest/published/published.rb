# Threads that publish spans by the extension published.so, which is put beside it before the first line is read. Argument: parked, which
# prints what is to be found of each thread as a line of JSON, or race.
require "json"
$stdout.sync = true
puts "start"
$stdin.gets
require "./published"
published_context

def told(id, root)
  { ID: id.to_s, Root: root.to_s }
end

NONE = told(0, 0)
SITUATIONS = {
  "untouched" => -> { NONE },
  "attached" => -> { published_attach(17, 16); told(17, 16) },
  "large" => -> { published_attach(2**64 - 1, 2**63); told(2**64 - 1, 2**63) },
  "detached" => -> { published_attach(18, 16); published_detach; NONE },
  "next" => -> { published_attach(19, 16); published_attach(20, 16); told(20, 16) },
}
[[0, NONE], [1, NONE], [2, told(66, 0)], [3, told(66, 0)], [4, told(66, 0)], [5, NONE], [6, NONE], [7, NONE], [8, told(66, 0)], [9, NONE], [10, NONE], [11, NONE],
 [12, told(66, 0)], [13, NONE], [14, told(66, 55)], [15, told(66, 0)]].each do |kind, expected|
  SITUATIONS["hostile #{kind}"] = -> { published_hostile(kind); expected }
end

if ARGV == ["race"]
  begun = Queue.new # until a thread reaches the variable, the dynamic linker need not have said where it is
  (1..2).each do |n|
    Thread.new do
      Thread.current.name = "racer #{n}"
      i = 0
      published_race(n, i)
      begun << n
      loop { published_race(n, i += 200) }
    end
  end
  2.times { begun.pop }
  puts "ready"
  $stdin.gets
  exit
end

said = Queue.new
SITUATIONS.each do |name, situation|
  Thread.new do
    Thread.current.name = name
    said << [name, situation.call]
    sleep
  end
end
expected = SITUATIONS.size.times.map { said.pop }.to_h
published_attach(21, 20)
expected["main"] = told(21, 20)
Thread.current.name = "main"
puts JSON.generate(expected)
$stdin.gets
