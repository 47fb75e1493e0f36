package demosource

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

const (
	step      = int64(time.Millisecond) // the time between two lock ticks
	stackEach = 10                      // every tenth tick reads all stacks
	slice     = 100 * step              // Ruby's time slice (thread.c, TIME_QUANTUM_MSEC)
	startNS   = int64(1_000_000_000_000)
)

// Options are the settings of the simulation. With the zero value, the target lives for 60 s and has 8 http threads.
type Options struct {
	Seed uint64
	// HTTP is the number of threads named http. Zero means 8.
	HTTP int
	// HogAfter is the time after which the thread worker-3 begins to hog the GVL. Zero means 10 s. A negative time
	// means never.
	HogAfter time.Duration
	// Length is how long the target lives. Zero means a minute.
	Length time.Duration
	// Realtime makes Run emit each sample at the time at which a live process would have it. Without it, Run emits the
	// samples as fast as possible.
	Realtime bool
	// ExtraNames are threads that only sleep.
	ExtraNames []string
	// KilledAtEnd makes the target end with exit status 137, as if it was killed. Otherwise its exit status is unknown.
	KilledAtEnd bool
	// Title is the program's name. If it is empty, the name is order-service.
	Title string
	// Serving is true if the http threads answer requests and the worker threads do jobs. IdleAfter is the time after
	// which no new requests come. If it is zero, requests come until the end.
	Serving   bool
	IdleAfter time.Duration
	// Exact adds to every sample the changes of the GVL since the previous sample, with their exact times, as exact
	// mode does.
	Exact bool
	// Said is appended to all texts of requests and jobs: routes, classes, values, statements and exceptions. Tests use
	// it to try texts with unusual characters.
	Said string
}

// Source is the simulation as a sampler.Source.
type Source struct {
	opt     Options
	rng     *rand.Rand
	dict    *sampler.Dictionary
	process sampler.Process
	threads []*thread
	owner   *thread
	queue   []*thread
	held    int64
	changes *rand.Rand         // random numbers for the times of changes
	mutex   *thread            // the thread that holds the cache's Mutex
	served  sampler.WorkNumber // how many requests and jobs have begun so far
	now     int64
	sample  sampler.Sample
	ended   bool
}

// New returns the simulation at its beginning.
func New(o Options) *Source {
	if o.HTTP == 0 {
		o.HTTP = 8
	}
	if o.HogAfter == 0 {
		o.HogAfter = 10 * time.Second
	}
	if o.Length == 0 {
		o.Length = time.Minute
	}
	if o.Title == "" {
		o.Title = "order-service"
	}
	attached := time.Date(2026, 5, 4, 14, 2, 52, 0, time.UTC)
	s := &Source{opt: o, rng: rand.New(rand.NewPCG(o.Seed, 42)), dict: sampler.NewDictionary(), now: startNS,
		process: sampler.Process{
			PID: 4242, StartTicks: 77, StartedAt: attached.Add(-76*time.Hour - 11*time.Minute), Title: o.Title,
			User: "deploy", Host: "web-1", RubyVersion: "3.4.7", RubyDescription: "ruby 3.4.7 (2025-10-08) +YJIT [x86_64-linux]",
			JIT: "yjit", Era: sampler.EraSched, Machine: "x86_64", Layout: "3.4.7 x86_64", CPUs: 4,
			StackRate: 100, LockRate: 1000, Overhead: 0.03, AttachedAt: attached, AttachedNS: startNS,
		}}
	s.changes = rand.New(rand.NewPCG(o.Seed, 16))
	s.cast()
	return s
}

// Process describes the simulated target.
func (s *Source) Process() sampler.Process { return s.process }

// Dictionary returns the Dictionary with the names of the simulated target.
func (s *Source) Dictionary() *sampler.Dictionary { return s.dict }

// ReadFile always fails, because the simulated program has no source files.
func (s *Source) ReadFile(string, int64) ([]byte, time.Time, error) {
	return nil, time.Time{}, os.ErrNotExist
}

// End says how the simulated target ended. It ends when the time Options.Length is over.
func (s *Source) End() (sampler.End, bool) {
	if !s.ended {
		return sampler.End{}, false
	}
	return sampler.End{AtNS: s.now, Reason: "exited", ExitKnown: s.opt.KilledAtEnd, ExitCode: 137}, true
}

// Run emits the samples of the whole simulation, in order.
func (s *Source) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	end := startNS + int64(s.opt.Length)
	began := time.Now()
	for n := 0; s.now < end; n++ {
		if s.opt.Realtime {
			if ahead := time.Duration(s.now-startNS) - time.Since(began); ahead > time.Millisecond {
				select {
				case <-ctx.Done():
				case <-time.After(ahead):
				}
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		s.tick()
		emit(s.read(n))
	}
	s.ended = true
	return sampler.ErrEnded
}
