# What a Sidekiq does after SIGTERM: the manager waits until no job is left.
class HardJob
  def perform
    sleep
  end
end
module Sidekiq
  class Processor
    def run
      HardJob.new.perform
    end
  end

  class Manager
    def stop
      sleep 0.1 while $busy
    end
  end
end
$busy = true
named("processor") { Sidekiq::Processor.new.run }
puts "ready"
$stdin.gets
Sidekiq::Manager.new.stop
