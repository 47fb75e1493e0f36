# A loop that asks whether a child has ended, without a pause.
child = fork { sleep }
named("reaper") { nil until Process.waitpid(child, Process::WNOHANG) }
ready
