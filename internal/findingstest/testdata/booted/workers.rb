# Workers that have booted: one waits in the block of its fork, one computes now and then, and one serves as Puma's does
# and is in a hook at its end.
module Puma
  class Configuration
    def run_hooks
      sleep
    end
  end
end
fork { sleep }
fork { loop { compute 0.01; sleep 0.05 } }
fork do
  $0 = "puma: cluster worker 0: #{Process.ppid} [shop]"
  named("puma stat pld") { loop { sleep 1 } }
  Puma::Configuration.new.run_hooks
end
ready
