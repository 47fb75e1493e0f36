package foreigntest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// found is what ddtop reads in a parked program, and how this differs from Ruby's own report. A parked program is one
// whose threads all wait.
type found struct {
	Process sampler.Process
	// FromMemory is true if ddtop could not open the file of Ruby's library, and read the library's image in the
	// process's memory instead. Deleted is true if the file was deleted or replaced on disk.
	FromMemory, Deleted bool
	// DebugError is the error of the search for Ruby's debug information. The search always fails, because there is no
	// debug information.
	DebugError string
	// InnerTID maps each thread's ID in the test's PID namespace to its ID in the process's own namespace.
	InnerTID map[int32]int32
	// Threads and Frames count how many were compared. Problems lists the differences from Ruby's own report.
	Threads, Frames int
	Problems        []string
}

func (f *found) problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}

// report fails the test for each problem. It also fails the test if too few threads or frames were compared.
func (f *found) report(t *testing.T, where string) {
	t.Helper()
	for _, p := range f.Problems {
		t.Errorf("%s: %s", where, p)
	}
	if f.Threads < 200 || f.Frames < 1000 {
		t.Errorf("%s: %d threads, %d frames compared only", where, f.Threads, f.Frames)
	}
	t.Logf("%s: Ruby %s, %d threads, %d frames compared", where, f.Process.RubyVersion, f.Threads, f.Frames)
}

// look attaches to a parked program as ddtop does, and compares what it reads with Ruby's own report. truthFile is a
// JSON file with this report.
func look(pid int, truthFile string) found {
	var truth rubytest.Truth
	text, err := os.ReadFile(truthFile)
	if err == nil {
		err = json.Unmarshal(text, &truth)
	}
	if err != nil {
		return found{Problems: []string{err.Error()}}
	}
	return lookAt(pid, truth)
}

// lookAt attaches to a parked program and takes one sample of all its threads. It compares the sample with Ruby's own
// report.
func lookAt(pid int, truth rubytest.Truth) found {
	f := found{InnerTID: make(map[int32]int32)}
	ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
	defer cancel()
	if err := f.lookAtModule(pid); err != nil {
		f.problem("%v", err)
		return f
	}
	s, err := live.Open(ctx, pid, live.Options{MaxDepth: 20000, BootWait: 30 * time.Second})
	if err != nil {
		f.problem("attaching: %v", err)
		return f
	}
	defer s.Close()
	sample, err := s.Once(ctx)
	if err != nil {
		f.problem("one sample: %v", err)
		return f
	}
	f.Process = s.Process()
	f.compare(s.Dictionary(), sample, truth)
	return f
}

// lookAtModule checks from where ddtop reads Ruby's ELF file: from the disk, or from the process's memory. It also
// reads the threads' IDs in the process's own namespace.
func (f *found) lookAtModule(pid int) error {
	p, err := attach.Open(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	m, err := attach.FindRuby(p)
	if err != nil {
		return err
	}
	defer m.Close()
	f.FromMemory, f.Deleted = !m.HasSection(".dynsym"), m.Deleted
	if _, err := m.DebugFile(); err != nil {
		f.DebugError = err.Error()
	}
	tids, err := p.TIDs(nil)
	if err != nil {
		return err
	}
	for _, tid := range tids {
		if f.InnerTID[tid], err = p.NamespaceTID(tid); err != nil {
			return err
		}
	}
	return nil
}

// compare compares a sample with what Ruby itself reports about each thread: frames, name, status and thread ID.
func (f *found) compare(d *sampler.Dictionary, sample *sampler.Sample, truth rubytest.Truth) {
	type thread struct {
		*sampler.Thread
		info sampler.ThreadInfo
	}
	seen := make(map[string]thread)
	for i := range sample.Threads {
		info, ok := d.Thread(sample.Threads[i].ID)
		if !ok {
			f.problem("thread %d is not in the dictionary", sample.Threads[i].ID)
		}
		seen[info.Name] = thread{&sample.Threads[i], info}
	}
	labels := rubytest.Ruby{Version: truth.Ruby}.AtLeast(3, 4) // from 3.4 on, Ruby prints qualified labels
	for _, want := range truth.Threads {
		got, ok := seen[want.Name]
		if !ok {
			f.problem("thread %q of Ruby's was not read", want.Name)
			continue
		}
		if want.TID != 0 && (f.InnerTID[got.TID] != want.TID || got.TID == 0) {
			f.problem("%s: thread %d here, which is %d to itself; Ruby says %d", want.Name, got.TID, f.InnerTID[got.TID], want.TID)
		}
		if status := got.Status.String(); status != want.Status || got.info.Main != want.Main {
			f.problem("%s: status %s, main %t; Ruby says %s, %t", want.Name, status, got.info.Main, want.Status, want.Main)
		}
		if got.Quality&^sampler.StackFresh != 0 {
			f.problem("%s: quality %b of a parked thread", want.Name, got.Quality)
		}
		if diff := differ(d, got.Stack, want.Frames, labels); diff != "" {
			f.problem("%s: %s", want.Name, diff)
		}
		for j, fiber := range want.Fibers {
			if j >= len(got.Resumers) {
				f.problem("%s: %d resuming fibers, Ruby says %d", want.Name, len(got.Resumers), len(want.Fibers))
				break
			}
			if diff := differ(d, got.Resumers[j], fiber.Frames, labels); diff != "" {
				f.problem("%s, resuming fiber %d: %s", want.Name, j, diff)
			}
		}
		f.Threads++
		f.Frames += len(want.Frames)
	}
	for name := range seen {
		// Ruby's report lacks two threads: the thread that makes the report, and the main thread if it waits for the
		// test.
		if _, ok := truth.Thread(name); !ok && name != rubytest.ReporterName && name != "main" {
			f.problem("Ruby has no thread %q", name)
		}
	}
}

// differ describes where a stack differs from Ruby's report. It compares labels only if labels is true. This is for
// Rubies that print qualified labels, as ddtop does.
func differ(d *sampler.Dictionary, id sampler.StackID, want []rubytest.TruthFrame, labels bool) string {
	ids := d.Frames(id, nil)
	if len(ids) != len(want) {
		return fmt.Sprintf("%d frames, Ruby says %d", len(ids), len(want))
	}
	for i, w := range want {
		g := d.Frame(ids[i])
		if g.Path != text(w.Path) || g.AbsolutePath != text(w.AbsolutePath) || g.Line != w.Line {
			return fmt.Sprintf("frame %d is %s (%s) line %d, Ruby says %s (%s) line %d", i, g.Path, g.AbsolutePath, g.Line,
				text(w.Path), text(w.AbsolutePath), w.Line)
		}
		if labels && (g.Label != w.Label || g.Name != w.BaseLabel) {
			return fmt.Sprintf("frame %d is %q (%q), Ruby says %q (%q)", i, g.Label, g.Name, w.Label, w.BaseLabel)
		}
		if g.Uncertain {
			return fmt.Sprintf("frame %d of a parked thread is marked as uncertain: %+v", i, g)
		}
	}
	return ""
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
