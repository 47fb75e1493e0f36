package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/processcontext"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live"
)

// examineRubies lists the Ruby processes and returns the PID of the first that can be read, or zero.
func (d *doctor) examineRubies(ctx context.Context) (pid int) {
	list, err := attach.List(ctx)
	if err != nil {
		d.wrong("rubies", err)
		return 0
	}
	if len(list) == 0 {
		d.say(checkNote, "rubies", "", "no Ruby process is seen from here")
		return 0
	}
	releases := make(map[string]int)
	var names []string
	var refused []error
	for _, c := range list {
		if c.Err != nil {
			refused = append(refused, c.Err)
			continue
		}
		if pid == 0 {
			pid = c.PID
		}
		if releases[c.Version] == 0 {
			names = append(names, c.Version)
		}
		releases[c.Version]++
	}
	slices.Sort(names)
	for i, v := range names {
		names[i] = fmt.Sprintf("%s ×%d", v, releases[v])
	}
	text := fmt.Sprintf("%d Ruby processes, %d of which can be read", len(list), len(list)-len(refused))
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	switch {
	case pid == 0:
		d.say(checkWrong, "rubies", "", "%s", text)
		d.wrong("", refused[0])
	default:
		d.say(checkGood, "rubies", "", "%s", text)
		if len(refused) > 0 {
			d.say(checkNote, "", "", "%s", d.textOf(refused[0]))
		}
	}
	return pid
}

// examineTime limits how long doctor reads and measures a process. On an idle machine this takes two seconds.
const examineTime = time.Minute

// examineTarget reads and measures a process. possible is true if the machine allows to put probes into processes.
func (d *doctor) examineTarget(ctx context.Context, pid int, possible bool) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	name := strconv.Itoa(pid)
	p, err := attach.Open(pid)
	if err != nil {
		d.wrong(name, err)
		return
	}
	d.say(checkGood, "memory", "", "process %d (%s) is read with %s", pid, run.ShortName(d.names.Redactor().Program(p.Title())), p.Method())
	if err := p.Close(); err != nil {
		d.wrong("memory", err)
	}
	idle, idleErr := kernel.IdleNS()
	began := time.Now()
	if d.pause {
		exact.StayAwake()
	} else {
		d.say(checkNote, "pause", "", "not tried, for it stops the process for a moment: --pause tries it")
	}
	src, err := live.Open(ctx, pid, d.attaching(layoutProgress(d.names)))
	if err != nil {
		d.wrong("ruby", err)
		return
	}
	defer src.Close()
	process := src.Process()
	layout := cmp.Or(process.LayoutNote, "its structs are known")
	d.say(checkGood, "ruby", "", "%s, %s: %s", process.RubyVersion, process.Machine, layout)
	d.examineContext(src)
	if possible {
		if err := src.CheckExact(ctx); err != nil {
			d.sayNoExact(err)
		} else {
			d.say(checkGood, "exact", "", "the process can be followed exactly (--exact); nothing was put into it")
		}
	}
	stat, note, err := measureStat(ctx, src, doctorMeasures, newJudgement())
	if err != nil {
		d.wrong("measuring", err)
		return
	}
	if d.pause {
		d.say(checkGood, "pause", "", "%d pauses, %d of them cut", stat.Pauses.Count, stat.Pauses.Cut)
	}
	cost := "not known"
	if stat.Self.CPUNS != nil && stat.Self.SpanNS > 0 {
		cost = fmt.Sprintf("%.1f %% of one CPU", 100*float64(*stat.Self.CPUNS)/float64(stat.Self.SpanNS))
	}
	d.examineRates(&stat, cost)
	if reads := stat.Samples; stat.Failed > 0 || stat.Partial > 0 {
		d.say(checkNote, "reads", "", "of %d samples' reads %d failed, %d stacks were read in part", reads, stat.Failed, stat.Partial)
	}
	if note != "" {
		d.say(checkNote, "", "", "%s", note)
	}
	if now, err := kernel.IdleNS(); err == nil && idleErr == nil {
		d.say(checkNote, "free CPUs", "", "%.1f of %d were idle meanwhile", max(0, float64(now-idle)/float64(time.Since(began))), runtime.NumCPU())
	}
	if text := stat.Self.PriorityNote; text != "" {
		d.say(checkNote, "priority", "", "%s", text)
	}
}

// examineContext reports what the process publishes about itself, such as its service. Profiles carry this as tags.
func (d *doctor) examineContext(src *live.Source) {
	c, err := src.Published()
	switch {
	case err != nil:
		d.say(checkNote, "context", "", "what it publishes of itself can't be read: %s", d.textOf(err))
	case c.Source == processcontext.None:
		d.say(checkNote, "context", "", "it publishes no process context (OTEL_CTX, datadog-tracer-info)")
	case d.names.Redactor() != nil:
		d.say(checkGood, "context", "", "%s: published, left out with --redact", c.Source)
	default:
		said := func(s string) string { return cmp.Or(s, "not said") }
		d.say(checkGood, "context", "", "%s: service %s, environment %s, version %s, runtime-id %s",
			c.Source, said(c.Service), said(c.Env), said(c.Version), said(c.RuntimeID))
	}
}

// achievedEnough is the part of a requested sampling rate that ddtop must reach. Below it, `ddtop doctor` adds a note.
const achievedEnough = 0.8

// examineRates reports the sampling rates that ddtop reached, and the figures for which they are too low. If a rate is
// well below the requested one, it adds a note. The exception is an idle process, which needs fewer samples.
func (d *doctor) examineRates(s *report.Stat, cost string) {
	state, remedy, short := checkGood, "", ""
	lock, stack := s.Rate.Lock, s.Rate.Stack
	if lock.Achieved < achievedEnough*lock.Asked || stack.Achieved < achievedEnough*stack.Asked {
		state, short = checkNote, "; fewer than asked for"
		// judge the samples of the same period as the screen
		usual := s.Quality.Of.Over(int64(sampler.QualityWindow))
		switch lacks := report.LacksOf(&usual); {
		case lacks != report.StatLacks{}:
			short += ", too few for some figures: " + strings.Join(export.LacksText(&lacks), "; ")
			remedy = "--overhead 10% or off"
		case s.Self.Lowered:
			short += ", to keep within the limit; enough for all figures, waits shorter than " + units.ProseDuration(s.Quality.ApartNS) + " can be missed"
		case usual.IdleNS > usual.SpanNS/2:
			short += ": the process is idle"
		default:
			short += ": the machine is full"
		}
	}
	d.say(state, "rates", remedy, "the GVL %.0f times a second and all stacks %.0f times (asked for %.0f and %.0f)%s; ddtop took %s in these %.1f s, limit %s",
		lock.Achieved, stack.Achieved, lock.Asked, stack.Asked, short, cost, float64(s.DurationNS)/1e9, d.limitText(s))
}

// limitText describes the CPU limit in force.
func (d *doctor) limitText(s *report.Stat) string {
	switch {
	case s.Self.Extended && s.Self.OverheadMost != nil:
		return fmt.Sprintf("%g%%, more than the usual %s for the least quality", 100**s.Self.OverheadMost, d.overhead.String())
	case s.Self.Halved:
		return d.overhead.String() + ", half of it in force since no CPU is free"
	}
	return d.overhead.String()
}

// examineSwitches reports whether ddtop can follow the kernel's thread switches.
func (d *doctor) examineSwitches() {
	if err := live.CheckSwitches(); err != nil {
		d.say(checkNote, "switches", "", "thread switches cannot be followed, so processes are polled: %s", d.textOf(err))
		return
	}
	d.say(checkGood, "switches", "", "this machine lets ddtop follow thread switches, which it does unless --source polling says otherwise")
}

// examineNative reports whether ddtop can take C stacks of running threads, and whether it can read all registers of
// blocked threads.
func (d *doctor) examineNative() {
	running, registers := live.CheckNative()
	const (
		noRunning   = "no C stacks of running threads (--native)"
		noRegisters = "C stacks of blocked threads end in libraries with frame pointers, as libpq"
	)
	switch {
	case running != nil && registers != nil:
		d.say(checkNote, "native", "", noRunning+", and "+noRegisters+": %s", d.textOf(running))
	case running != nil:
		d.say(checkNote, "native", "", noRunning+": %s", d.textOf(running))
	case registers != nil:
		d.say(checkNote, "native", "", noRegisters+": %s", d.textOf(registers))
	default:
		d.say(checkGood, "native", "", "this machine lets ddtop take C stacks of running threads (--native), "+
			"and read all registers of blocked ones")
	}
}
