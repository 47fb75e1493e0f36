package rivals

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// stackRate is the rate at which each profiler reads stacks, in Hz.
const stackRate = 100

// maxTrace limits the length of a line in rbspy's raw file, in bytes.
const maxTrace = 1 << 20

// profiler is a program that can sample a process for a while and write the samples to a file.
type profiler struct {
	name string
	// command measures the process for some seconds and writes to file.
	command func(pid, seconds int, file string) *exec.Cmd
	// read reads the stacks from the file and adds them to the verdict, which counts right and wrong frames.
	read func(file string, v *verdict) error
}

// measured is one run of a profiler.
type measured struct {
	cpu time.Duration // the profiler's own CPU time
	verdict
}

// run lets the profiler sample a process once. If the profiler cannot read the process, refused has its message.
func (p profiler) run(b *testing.B, pid, seconds int) measured {
	b.Helper()
	file := filepath.Join(b.TempDir(), "out")
	cmd := p.command(pid, seconds, file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		b.Fatalf("starting %s: %v", p.name, err)
	}
	m := measured{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		m.refused = fmt.Sprintf("%v: %s", err, strings.Join(lines[max(0, len(lines)-3):], " "))
		return m
	}
	if err := p.read(file, &m.verdict); err != nil {
		b.Fatalf("what %s left: %v", p.name, err)
	}
	return m
}

// rbspy returns a profiler that runs rbspy with the given additional arguments.
func rbspy(path, name string, args ...string) profiler {
	return profiler{name: name, read: readRbspy, command: func(pid, seconds int, file string) *exec.Cmd {
		return exec.Command(path, append([]string{"record", "--pid", strconv.Itoa(pid), "--duration", strconv.Itoa(seconds),
			"--rate", strconv.Itoa(stackRate), "--silent", "--format", "collapsed", "--file", file + ".collapsed", "--raw-file", file}, args...)...)
	}}
}

// readRbspy reads rbspy's raw file. It is gzipped. Its first line is "rbspy02", the second is JSON about the run, and
// each further line is a stack in JSON.
func readRbspy(file string, v *verdict) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, maxTrace)
	for n := 0; lines.Scan(); n++ {
		if n == 0 && lines.Text() != "rbspy02" {
			return fmt.Errorf("%s: begins with %.40q, not rbspy02", file, lines.Text())
		}
		if n < 2 {
			continue
		}
		var stack struct {
			Trace []struct {
				Name string
				Line int `json:"lineno"`
			}
			Thread uint64 `json:"thread_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &stack); err != nil {
			return fmt.Errorf("%s: stack %d: %w", file, n-2, err)
		}
		frames := make([]frame, len(stack.Trace))
		for i, f := range stack.Trace {
			frames[i] = frame{f.Name, f.Line}
		}
		v.looks++ // rbspy reads the stack of only one thread at a time
		v.judge(strconv.FormatUint(stack.Thread, 10), frames)
	}
	// rbspy is ended by a signal or by its time limit, so its gzip stream lacks an end. Reading such a file is no
	// error.
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// reachable lets rbspy read a program that runs in a root (chroot). rbspy opens paths of /proc/PID/maps below
// /proc/PID/root. But these paths are as the host sees them, so they already begin with the path of the root. Therefore
// reachable makes a link inside the root, at the root's own path. It leads back to the root.
func reachable(b *testing.B, root string) {
	b.Helper()
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		b.Fatal(err)
	}
	link := root + root
	if _, err := os.Lstat(link); err == nil {
		return
	}
	// made is the outermost of the folders that this function creates. The cleanup removes it with its contents.
	made := link
	for parent := filepath.Dir(made); ; parent = filepath.Dir(made) {
		if _, err := os.Stat(parent); err == nil {
			break
		}
		made = parent
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(made); err != nil {
			b.Error(err)
		}
	})
	up := strings.Repeat("../", strings.Count(filepath.Dir(root), "/"))
	if err := os.Symlink(up, link); err != nil {
		b.Fatal(err)
	}
}

// ddtop returns a profiler that runs ddtop with the given additional arguments.
func ddtop(path, name string, args ...string) profiler {
	return profiler{name: name, read: readDdtop, command: func(pid, seconds int, file string) *exec.Cmd {
		return exec.Command(path, append([]string{"record", "--pid", strconv.Itoa(pid), "--duration", strconv.Itoa(seconds),
			"--rate", strconv.Itoa(stackRate), "--format", "ddtop", "--output", file}, args...)...)
	}}
}

// readDdtop reads a recording of ddtop. It judges only the stacks of ticks at which ddtop read the stacks of all
// threads.
func readDdtop(file string, v *verdict) error {
	r, err := recording.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Range(math.MinInt64, math.MaxInt64, func(s *sampler.Sample) {
		if s.Depth != sampler.StackTick {
			return
		}
		v.looks++
		for _, t := range s.Threads {
			if t.Stack == 0 {
				continue
			}
			v.judge(strconv.FormatUint(uint64(t.ID), 10), framesOf(r.Dictionary(), t.Stack))
		}
	})
}

// framesOf returns the frames of a stack, innermost first.
func framesOf(dict *sampler.Dictionary, stack sampler.StackID) (out []frame) {
	for _, id := range dict.Frames(stack, nil) {
		f := dict.Frame(id)
		out = append(out, frame{f.Label, int(f.Line)})
	}
	return out
}

// progress is how many turns the program has made, and its wall time and CPU time, as the program itself reports them.
type progress struct{ turns, wallNS, cpuNS float64 }

func ask(b *testing.B, p *rubytest.Process) progress {
	b.Helper()
	p.Send(b, "?")
	var at progress
	if line := p.Line(b); !scan(line, &at) {
		b.Fatalf("the program said %q", line)
	}
	return at
}

func scan(line string, at *progress) bool {
	n, err := fmt.Sscan(line, &at.turns, &at.wallNS, &at.cpuNS)
	return err == nil && n == 3
}
