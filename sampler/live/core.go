package live

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/own"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// coreNS is the invented time of a core file's sample, in ns: a core does not contain CLOCK_MONOTONIC.
const coreNS = 1

// coreTries limits how often Once reads a core. The first read finds out how large the stacks are. Later reads use
// these sizes.
const coreTries = 3

// Core is a Source with one sample, which comes from a core file. The sample has only what Ruby's memory shows.
type Core struct {
	core   *attach.Core
	module *attach.Module
	info   sampler.Process
	dict   *sampler.Dictionary
	names  *redact.Redactor
	own    *own.Code
	reader *ruby.Reader
	values bool // Options.Values, but false if there is a Redactor
	native cstacks.Reader
	debug  *debuginfod.Client
}

// OpenCore finds the Ruby VM in a core file. files says where to find the files that the process had mapped. OpenCore
// uses only these fields of opts: MaxDepth, Dictionary, Redactor, OwnCode, Values, Debug, Progress.
func OpenCore(ctx context.Context, path string, files attach.CoreFiles, opts Options) (*Core, error) {
	if err := opts.Defaults(); err != nil {
		return nil, err
	}
	core, err := attach.OpenCore(path, files)
	if err != nil {
		return nil, err
	}
	c := &Core{core: core, dict: opts.Dictionary, names: opts.Redactor, own: opts.OwnCode, debug: opts.Debug,
		values: opts.Values && opts.Redactor == nil}
	if err := c.open(ctx, opts); err != nil {
		c.Close()
		if missing := core.Missing(); missing > 0 {
			err = fmt.Errorf("%w (the core was cut short by %d bytes: ulimit -c, or a full disk)", err, missing)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *Core) open(ctx context.Context, opts Options) error {
	var err error
	if c.module, err = c.core.Ruby(); err != nil {
		return err
	}
	version, description, err := c.module.RubyVersion(c.core)
	if err != nil {
		return err
	}
	pid := c.core.PID()
	found, err := ruby.Find(ctx, c.core, c.module, version,
		ruby.FindOptions{PID: pid, Cache: ruby.CacheFolder(), Progress: opts.Progress, Still: true})
	if err != nil {
		return err
	}
	if found.VM.Description != "" {
		description = found.VM.Description
	}
	tids := c.core.TIDs()
	c.reader, err = ruby.NewReader(found.VM, c.module, pid, c.dict, ruby.Options{
		MaxDepth: opts.MaxDepth, Values: opts.Values && opts.Redactor == nil, Now: func() int64 { return coreNS },
		TIDs: func(stored int32) (int32, bool) {
			_, ok := slices.BinarySearch(tids, stored)
			return stored, ok
		},
	})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // only for display
	c.info = c.names.Process(sampler.Process{
		PID: pid, Title: c.core.Title(), User: strconv.Itoa(c.core.UID()), Host: host,
		RubyVersion: version, RubyDescription: description, JIT: jitOf(description), Era: c.reader.Era(),
		Machine: found.VM.Table.Machine, Layout: found.VM.Table.Name, LayoutNote: found.Note,
		AttachedAt: c.core.WrittenAt(), AttachedNS: coreNS,
	})
	return nil
}

// Process describes the process that was dumped. AttachedAt is when the core was written.
func (c *Core) Process() sampler.Process { return c.info }

// Dictionary returns the dictionary with which the IDs in the sample can be looked up.
func (c *Core) Dictionary() *sampler.Dictionary { return c.own.View(c.names.View(c.dict)) }

// Missing returns the number of bytes that the core file lacks because it was cut short.
func (c *Core) Missing() int64 { return c.core.Missing() }

// Once returns the sample. It reads the core up to coreTries times, and takes the most complete result.
func (c *Core) Once(ctx context.Context) (*sampler.Sample, error) {
	var best *sampler.Sample
	var last error
	for try := 0; try < coreTries && ctx.Err() == nil; try++ {
		var s sampler.Sample
		if last = c.reader.Read(sampler.StackTick, &s); last != nil {
			continue
		}
		for i := range s.Threads {
			s.Threads[i].Kernel.FD = -1
		}
		if best == nil || flaws(&s) <= flaws(best) {
			best = s.Clone()
		}
	}
	if best == nil {
		if last == nil {
			last = ctx.Err()
		}
		return nil, last
	}
	best.Reads = *c.reader.Reads()
	return best, nil
}

// NativeThreads lists the threads of the core file, without their names and CPU time.
func (c *Core) NativeThreads() ([]NativeThread, error) {
	var out []NativeThread
	for _, tid := range slices.Compact(c.core.TIDs()) {
		out = append(out, NativeThread{TID: tid})
	}
	return out, nil
}

// NativeStacks reads the native stacks of the sampled threads, and of other threads by TID (others). sample must come
// from Once. A core does not change, so even the stacks of running threads can be read. Locks of C code are not read.
func (c *Core) NativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return nativeStacksOf(ctx, &c.native, cstacks.Subject{Process: c.core, Dumped: cstacks.Dumped{Core: c.core},
		VMPath: c.module.Path, Machine: c.info.Machine, JIT: c.info.JIT != "", Names: c.names, Debug: c.debug,
		Controls: func(id sampler.ThreadID) ([]native.Control, bool, bool) { return controlsOf(c.reader, id) },
	}, sample, others)
}

// CountHeap counts the objects in the core file, as Source.CountHeap does.
func (c *Core) CountHeap(ctx context.Context) (*sampler.HeapCount, error) {
	count, err := c.reader.CountHeap(ctx, func() {})
	if err == nil {
		count.Traced = c.names.Traced(count.Traced)
	}
	return count, err
}

// HeapGraph copies the objects in the core file with their references, as the function HeapGraph does.
func (c *Core) HeapGraph(ctx context.Context, o sampler.HolderOptions) (*heapgraph.Graph, sampler.HolderInfo, error) {
	o.ThreadName, o.Values = c.names.ThreadName, c.values
	return c.reader.HeapGraph(ctx, o, func() {})
}

// Run passes the single sample to emit, and returns sampler.ErrEnded.
func (c *Core) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	s, err := c.Once(ctx)
	if err != nil {
		return err
	}
	emit(s)
	return sampler.ErrEnded
}

// End returns how the process ended: it was dumped into this core file.
func (c *Core) End() (sampler.End, bool) {
	return sampler.End{AtNS: coreNS, Reason: "was dumped into a core file"}, true
}

// Close closes the core file and the mapped files that were opened with it.
func (c *Core) Close() error {
	c.native.Close()
	if c.module != nil {
		c.module.Close()
	}
	return c.core.Close()
}
