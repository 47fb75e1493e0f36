package live

import (
	"errors"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// stillFamilyNS is how long the role of a process stays valid, in ns, if none of its threads gets a CPU. Without a CPU,
// the process can neither change its title nor start a process.
const stillFamilyNS = 10_000_000_000

// maxBelow is the largest number of descendants that Family counts.
const maxBelow = 1024

// Family returns the present role of the process in its service, such as master or worker. It reads /proc. Any
// goroutine may call it. After an error, callers should wait before they call it again.
func (s *subject) Family() (sampler.Family, error) {
	s.familyMu.Lock()
	defer s.familyMu.Unlock()
	now := pace.Monotonic()
	if now-s.familyNS < stillFamilyNS && s.unmoved(s.familyNS) {
		return s.lastFamily, nil
	}
	f, err := s.family(s.proc.Title())
	if err == nil {
		s.lastFamily, s.familyNS = f, now
	}
	return f, err
}

// family reads the title of the process, and finds its descendants that run the same program. If the descendants have
// titles of workers with the name of this process, the process is their master.
func (s *subject) family(title string) (f sampler.Family, err error) {
	if f.Part, f.Now, err = s.proc.Part(); err != nil {
		return f, err
	}
	own, err := kernel.Identify(s.proc.PID())
	if err != nil || own.Exe == "" {
		return f, nil // only the title is known
	}
	below := []int{own.PID}
	for i := 0; i < len(below) && len(below) <= maxBelow; i++ { // the list grows in the loop
		children, err := kernel.Children(below[i])
		if err != nil {
			continue // the process has ended
		}
		for _, pid := range children {
			id, err := kernel.Identify(pid)
			if err != nil || id.Ended || id.Exe != own.Exe || id.Age() < kernel.SettleTime {
				continue
			}
			below = append(below, pid)
			if f.Part != "" || i > 0 {
				continue
			}
			name, part, err := attach.PartOf(pid)
			if errors.Is(err, attach.ErrNoAnswer) {
				return f, err // each child that does not answer costs time and holds a thread
			}
			if err == nil && name == title {
				if _, worker := attach.WorkerNumber(part); worker {
					f.Part = attach.MasterPart
				}
			}
		}
	}
	f.Below = len(below) - 1
	return f, nil
}
