package cli

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
)

// headEvery is how many lines of text a heading stands over.
const headEvery = 20

// lineFlags are those of `stat --interval`.
type lineFlags struct{ interval duration }

func newLineFlags() lineFlags {
	return lineFlags{duration{min: 100 * time.Millisecond, max: time.Hour}}
}

func (f *lineFlags) addLines(cmd *cobra.Command) {
	cmd.Flags().Var(&f.interval, "interval", "print a line for each interval of this length, until ctrl-c or for -d: 1s")
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
type linePrinter struct{ *run.Printer[export.StatLine] }

// printLines begins to print. failed is called when nothing more can be written.
func printLines(to io.Writer, asJSON, several bool, failed func()) linePrinter {
	n := 0
	return linePrinter{run.Print(func(l export.StatLine) error {
		if asJSON {
			return export.WriteStatLineJSON(to, l)
		}
		if n%headEvery == 0 {
			if _, err := io.WriteString(to, export.StatLinesHead(several)); err != nil {
				return err
			}
		}
		n++
		return export.WriteStatLine(to, l, several)
	}, failed)}
}

// measure feeds the lines of a process. note says why it ended early, "" when it did not.
func (p linePrinter) measure(ctx context.Context, src sampler.Source, length, interval time.Duration) (note string, err error) {
	class := gvl.NewClassifier(src.Process(), src.Dictionary())
	stream := gvl.NewStream(src.Process())
	lines := gvl.NewLines(stream, src.Process(), interval.Nanoseconds(), func(l gvl.StatLine) {
		p.Add(export.StatLine{Time: src.Process().WallTime(l.EndNS), StatLine: l})
	})
	note, err = sampleFor(ctx, src, length, func(s *sampler.Sample) { stream.Feed(s, class.Classify(s)) })
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
		return cmp.Or(p.Close(std.say), err)
	}
	src, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	p := printLines(std.results(ctx), asJSON, false, cancel)
	go tellFailures(ctx, src, std.say)
	note, err := p.measure(ctx, src, m.length.value, interval)
	if err = cmp.Or(p.Close(std.say), err); err == nil {
		sayNotes(std, src, note)
	}
	return err
}
