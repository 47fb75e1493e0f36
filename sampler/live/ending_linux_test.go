package live

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// TestNothingIsLostAtTheEnd: samples are delivered in batches. If sampling ends in the middle of a batch, ddtop must
// deliver all samples that it has read, in order, and each only once. This must hold if the user quits and if the
// process ends.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(p *rubytest.Process, stop context.CancelFunc){
		"quit":             func(_ *rubytest.Process, stop context.CancelFunc) { stop() },
		"the process ends": func(p *rubytest.Process, _ context.CancelFunc) { _ = unix.Kill(p.PID, unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			p := rubytest.One(t).Start(t, "$stdout.sync = true\nputs 'up'\nx = 0\nloop { x += 1 }\n", rubytest.Options{})
			p.Expect(t, "up")
			s, err := Open(t.Context(), p.PID, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, stop := context.WithTimeout(t.Context(), rubytest.Timeout)
			defer stop()
			var last sampler.Reads
			first, taken := uint64(0), uint64(0)
			err = s.Run(ctx, func(x *sampler.Sample) {
				if taken++; taken == 1 {
					first = x.Reads.Ticks
				}
				if last = x.Reads; last.Ticks != first+taken-1+last.Lost {
					t.Errorf("sample %d is tick %d, the first was %d, %d are said to be lost", taken, last.Ticks, first, last.Lost)
				}
				if taken == 70 {
					end(p, stop)
				}
			})
			if err != nil && !errors.Is(err, sampler.ErrEnded) {
				t.Fatal(err)
			}
			if read := s.reader.Reads().Ticks; last.Ticks != read {
				t.Errorf("the last of %d samples is tick %d of %d", taken, last.Ticks, read)
			}
		})
	}
}

// TestOpenAcrossExec: a process calls exec while ddtop opens it. openProgram must return ErrReplaced. Otherwise ddtop
// would get a Source of the first program, which has already ended. The test needs a real exec, because nothing else
// changes what the kernel reports about a process.
func TestOpenAcrossExec(t *testing.T) {
	r := rubytest.One(t)
	p := r.Start(t, `$stdout.sync = true
puts 'up'
gets
exec(RbConfig.ruby, '-e', '$stdout.sync = true; puts :again; gets')`, rubytest.Options{})
	p.Expect(t, "up")
	first, err := attach.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	p.Send(t, "go on")
	p.Expect(t, "again")
	opts := Options{}
	if err := opts.Defaults(); err != nil {
		t.Fatal(err)
	}
	if s, err := openProgram(t.Context(), first, opts); !errors.Is(err, attach.ErrReplaced) {
		t.Errorf("of a process that has called exec meanwhile: opened %t, %v; want ErrReplaced", s != nil, err)
	}
}
