package cli

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// headEvery is how many lines of text a heading stands over.
	headEvery = 20
	// maxWaitingLines bounds the lines that wait for who reads them. What comes past it is left out, and said: sampling waits for
	// nobody.
	maxWaitingLines = 1000
)

// lineFlags are those of `stat --interval`.
type lineFlags struct{ interval duration }

func newLineFlags() lineFlags {
	return lineFlags{duration{min: 100 * time.Millisecond, max: time.Hour}}
}

func (f *lineFlags) addLines(cmd *cobra.Command) {
	cmd.Flags().Var(&f.interval, "interval", "print a line for each such stretch of time, until ctrl-c or for -d: 1s")
	cmd.Flags().Lookup("interval").DefValue = ""
}

// given reports whether lines are asked for. What lines don't have is refused then.
func (f *lineFlags) given(cmd *cobra.Command, length *duration) (bool, error) {
	if !cmd.Flags().Changed("interval") {
		return false, nil
	}
	for _, name := range []string{"finding", "wait-threshold", "endpoint"} {
		if cmd.Flags().Changed(name) {
			return false, usageErrorf("--%s does not go with --interval, whose lines have nothing of it", name)
		}
	}
	if !cmd.Flags().Changed("duration") {
		length.value = unlimited
	}
	return true, nil
}

// linePrinter prints the lines of one process or several, while they are measured.
type linePrinter struct {
	to      io.Writer
	asJSON  bool
	several bool
	lines   chan export.StatLine
	done    chan error
	mu      sync.Mutex
	lost    int
}

// printLines begins to print. failed is called when nothing more can be written.
func printLines(to io.Writer, asJSON, several bool, failed func()) *linePrinter {
	p := &linePrinter{to: to, asJSON: asJSON, several: several, lines: make(chan export.StatLine, maxWaitingLines), done: make(chan error, 1)}
	go func() {
		err := p.print()
		if err != nil {
			failed()
		}
		for range p.lines { // nobody reads them
		}
		p.done <- err
	}()
	return p
}

func (p *linePrinter) print() error {
	n := 0
	for l := range p.lines {
		if p.asJSON {
			if err := export.WriteStatLineJSON(p.to, l); err != nil {
				return err
			}
			continue
		}
		if n%headEvery == 0 {
			if _, err := io.WriteString(p.to, export.StatLinesHead(p.several)); err != nil {
				return err
			}
		}
		n++
		if err := export.WriteStatLine(p.to, l, p.several); err != nil {
			return err
		}
	}
	return nil
}

func (p *linePrinter) add(l export.StatLine) {
	select {
	case p.lines <- l:
	default:
		p.mu.Lock()
		p.lost++
		p.mu.Unlock()
	}
}

// close waits until all is printed.
func (p *linePrinter) close(std Streams) error {
	close(p.lines)
	err := <-p.done
	if p.lost > 0 {
		std.say("%d lines are left out: they were not read in time", p.lost)
	}
	return err
}

// measure feeds the lines of a process. note says why it ended early, "" when it did not.
func (p *linePrinter) measure(ctx context.Context, src sampler.Source, length, interval time.Duration) (note string, err error) {
	class := gvl.NewClassifier(src.Process(), src.Dictionary())
	stream := gvl.NewStream(src.Process())
	lines := gvl.NewLines(stream, src.Process(), interval.Nanoseconds(), func(l gvl.StatLine) {
		p.add(export.StatLine{Time: src.Process().WallTime(l.EndNS), StatLine: l})
	})
	note, err = run(ctx, src, length, func(s *sampler.Sample) { stream.Feed(s, class.Classify(s)) })
	stream.Finish()
	lines.Finish()
	return note, err
}

// statLines is `ddtop stat --interval`.
func (m *measurement) statLines(ctx context.Context, interval time.Duration, std Streams, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if m.several() {
		g, err := m.openGroup(ctx, false, std.say)
		if err != nil {
			return err
		}
		defer g.Close()
		p := printLines(std.results(ctx), asJSON, true, cancel)
		_, err = measureGroup(ctx, g, m.length.value, std, func(ctx context.Context, src sampler.Source, left time.Duration) (struct{}, string, error) {
			note, err := p.measure(ctx, src, left, interval)
			return struct{}{}, note, err
		})
		return cmp.Or(p.close(std), err)
	}
	src, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	p := printLines(std.results(ctx), asJSON, false, cancel)
	go tellFailures(ctx, src, std.say)
	note, err := p.measure(ctx, src, m.length.value, interval)
	if err = cmp.Or(p.close(std), err); err == nil {
		sayNotes(std, src, note)
	}
	return err
}
