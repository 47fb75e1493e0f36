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

// suspendedMsg says how ctrl-z went, or what kept it from working.
type suspendedMsg struct{ err error }

// suspend gives the terminal back to the shell and stops ddtop until the shell continues it, as ctrl-z does elsewhere.
func suspend(m *Model) tea.Cmd {
	if !m.Opt.Suspend {
		m.message.Fail("ctrl-z does nothing here: no shell would continue ddtop, or --pause or --exact forbid it")
		return nil
	}
	return func() tea.Msg { return suspendedMsg{syscall.Kill(os.Getpid(), syscall.SIGTSTP)} }
}

// stopOnSIGTSTP does on SIGTSTP, from the key or from elsewhere, what a program with a screen has to until done is
// called: it gives the terminal back before it stops, and takes it again when it is continued. A process that the
// signal stops at once leaves a raw terminal, and comes back to one that is none any more.
//
// park has the sampling hold nothing of a process, a copy of one of its sockets for one, for as long as ddtop is
// stopped.
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

// park parks all Sources that can be.
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

// stopUntilContinued stops all processes of ddtop's group, sudo for one, until SIGCONT. It takes SIGSTOP for that: a
// signal that Go's runtime once handled it never leaves to the kernel again, and Bubble Tea's own way (2.0.9,
// suspendProcess) would wait forever.
func stopUntilContinued(p *tea.Program) error {
	if err := p.ReleaseTerminal(); err != nil {
		return fmt.Errorf("giving the terminal back before stopping: %w", err)
	}
	// Another thread may be the one that the signal finds, so that kill returns before all have stopped.
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
