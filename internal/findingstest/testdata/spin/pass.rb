# A thread that gives way until something happens, which does not.
class Waiter
  def run
    Thread.pass until @done
  end
end
named("waiter") { Waiter.new.run }
ready
