package ui

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// suspendedMsg reports the result of the key ctrl-z. err is nil if ddtop was suspended. Otherwise err says why it could
// not be suspended.
type suspendedMsg struct{ err error }

// suspend does what the key ctrl-z does in other programs: it restores the terminal for the shell, and stops ddtop.
// ddtop runs again when the shell continues it.
func suspend(m *Model) tea.Cmd {
	if !m.Opt.Suspend {
		m.message.Fail("ctrl-z does nothing here: no shell would continue ddtop, or --pause or --exact forbid it")
		return nil
	}
	return func() tea.Msg { return suspendedMsg{syscall.Kill(os.Getpid(), syscall.SIGTSTP)} }
}

// stopOnSIGTSTP handles SIGTSTP, from the key or from another process, until done is called. It restores the terminal
// before ddtop stops, and sets the terminal up again when ddtop is continued. Otherwise the shell would get a terminal
// in raw mode while ddtop is stopped. Also, ddtop would continue on a terminal that is not in raw mode.
//
// While ddtop is stopped, its samplers must not hold anything that belongs to a process, such as a copy of a socket.
// park makes them release such things.
func stopOnSIGTSTP(p *tea.Program, park func() (resume func())) (done func()) {
	stop, quit := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(stop, syscall.SIGTSTP)
	go func() {
		for {
			select {
			case <-stop:
				resume := park()
				if err := stopUntilContinued(p); err != nil {
					p.Send(suspendedMsg{err})
				}
				resume()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(stop)
		close(quit)
	}
}

// park makes all Sources release what they hold of their processes. For this it calls the method Park of each Source
// that has one. The result resume undoes this.
func park(o scene.Options) (resume func()) {
	sources := []sampler.Source{o.Source}
	if o.Group != nil {
		list, _ := o.Group.Relatives()
		for i := range list {
			sources = append(sources, list[i].Source)
		}
	}
	var resumes []func()
	for _, s := range sources {
		if s, ok := s.(interface{ Park() (resume func()) }); ok {
			resumes = append(resumes, s.Park())
		}
	}
	return func() {
		for _, resume := range resumes {
			resume()
		}
	}
}

// stopUntilContinued stops ddtop's whole process group (which can include sudo) until SIGCONT. It sends SIGSTOP and not
// SIGTSTP. Once Go's runtime has handled SIGTSTP, it never leaves this signal to the kernel again, so SIGTSTP would not
// stop ddtop. For the same reason Bubble Tea's own way (2.0.9, suspendProcess) would wait forever.
func stopUntilContinued(p *tea.Program) error {
	if err := p.ReleaseTerminal(); err != nil {
		return fmt.Errorf("giving the terminal back before stopping: %w", err)
	}
	// The kernel may deliver SIGSTOP to a thread other than this one. In this case kill returns before all threads have
	// stopped.
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	err := syscall.Kill(0, syscall.SIGSTOP)
	if err == nil {
		<-continued
	}
	if again := p.RestoreTerminal(); again != nil {
		return fmt.Errorf("taking the terminal again: %w", again)
	}
	if err != nil {
		return fmt.Errorf("stopping ddtop's process group: %w", err)
	}
	return nil
}
