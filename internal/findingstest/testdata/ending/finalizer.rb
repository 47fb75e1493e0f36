# An object's finalizer never comes back.
ObjectSpace.define_finalizer(Object.new, proc { sleep })
puts "ready"
$stdin.gets
