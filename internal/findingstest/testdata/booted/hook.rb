# A worker of Puma that waits in a hook at its start for a server that does not answer.
server(5432, 1000)
module Puma
  class Configuration
    def run_hooks
      socket = TCPSocket.new(ADDRESS, 5432)
      socket.write("hello\n")
      socket.gets
    end
  end

  class Cluster
    class Worker
      def run
        Configuration.new.run_hooks
      end
    end
  end
end
fork do
  $0 = "puma: cluster worker 0: #{Process.ppid} [shop]"
  Puma::Cluster::Worker.new.run
end
sleep 0.5 # the child of the server comes first
ready
