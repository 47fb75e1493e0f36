package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/group"
	"github.com/ddtop/ddtop/ui"
)

func newReplay(std run.Streams) *cobra.Command {
	screen := newScreenFlags(std)
	var against string
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Show a recording on the screen",
		Long: `Show a recording (ddtop record --format ddtop) on the screen, with every view as it was live. Several files show several
processes (ddtop record --children). With --against, the flamegraph and the top functions show what is more or less
than in another recording, for the same length of time.`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !std.Terminal {
				return flags.Usagef("replay needs a terminal: use \"ddtop report %s\"", args[0])
			}
			if err := errors.Join(screen.configure(cmd, std), screen.check()); err != nil {
				return err
			}
			if against != "" && len(args) > 1 {
				return flags.Usagef("--against compares one recording: name one")
			}
			s := shown{replay: true}
			all, err := loadRecordings(cmd.Context(), &screen, args, std)
			if err != nil {
				return notWaitedFor(err)
			}
			for _, r := range all {
				s.notice = cmp.Or(sayDamage(r, std), s.notice)
			}
			if len(all) > 1 {
				return errors.Join(screen.showGroup(cmd.Context(), all, std, s), all.Close())
			}
			if against != "" {
				if s.against, err = loadAgainst(cmd.Context(), &screen, against, std); err != nil {
					return errors.Join(notWaitedFor(err), all.Close())
				}
			}
			return errors.Join(screen.show(cmd.Context(), all[0], std, s), all.Close())
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "compare with another recording, a `FILE`")
	screen.add(cmd)
	return cmd
}

// loadAgainst reads the recording of --against, with which replay compares. It shows its progress on the screen.
func loadAgainst(ctx context.Context, screen *screenFlags, path string, std run.Streams) (*ui.Against, error) {
	list, err := loadRecordings(ctx, screen, []string{path}, std)
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	name := std.Redact.Text(filepath.Base(path))
	x, err := ui.Load(ctx, screen.options(std, shown{}), "reading "+name, func(ctx context.Context, _ func(ui.Progress)) (*ui.Against, error) {
		return ui.LoadAgainst(ctx, list[0], name, screen.options(std, shown{}))
	})
	if err != nil && notWaitedFor(err) != nil {
		err = fmt.Errorf("--against %s: %w", path, err)
	}
	return x, errors.Join(err, list.Close())
}

// openRecording opens a recording, and reports the part of it that cannot be read.
func openRecording(path string, std run.Streams) (*recording.Reader, error) {
	r, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	r.Redact(std.Redact.Redactor())
	r.Own(std.Own.Rules())
	sayDamage(r, std)
	return r, nil
}

// sayDamage reports which part of a recording cannot be read, and returns the same text. The text is empty if the whole
// recording can be read.
func sayDamage(r *recording.Reader, std run.Streams) string {
	damage := r.Damage()
	if damage == nil {
		return ""
	}
	std.SayErr(damage)
	return std.Redact.Text(damage.Error())
}

type recordings []*recording.Reader

// Follow calls join for each recording.
func (r recordings) Follow(_ context.Context, join func(sampler.Source)) error {
	for _, x := range r {
		join(x)
	}
	return sampler.ErrEnded
}

// Done does nothing: the history of a recording need not be kept, because its file can be read again.
func (r recordings) Done(sampler.Source) {}

// Relatives returns the recorded processes, without a tree: a recording does not show which one forked which.
func (r recordings) Relatives() (list []sampler.Relative, forgotten int) {
	for _, x := range r {
		p := x.Process()
		list = append(list, sampler.Relative{PID: p.PID, StartTicks: p.StartTicks, StartedAt: p.StartedAt, Title: p.Title, Root: true, Source: x})
	}
	return list, 0
}

// Close closes the files.
func (r recordings) Close() error {
	var errs []error
	for _, x := range r {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// loadRecordings opens recordings, and shows the progress if this takes long. It does not report damaged parts.
func loadRecordings(ctx context.Context, screen *screenFlags, paths []string, std run.Streams) (recordings, error) {
	title := "opening " + filepath.Base(paths[0])
	if len(paths) > 1 {
		title = fmt.Sprintf("opening %d recordings", len(paths))
	}
	return ui.Load(ctx, screen.options(std, shown{}), title, func(ctx context.Context, tell func(ui.Progress)) (recordings, error) {
		var all recordings
		for i, path := range paths {
			what := ""
			if len(paths) > 1 {
				what = fmt.Sprintf("%d of %d: %s", i+1, len(paths), filepath.Base(path))
			}
			r, err := recording.OpenContext(ctx, path, func(done, size int64) { tell(ui.Progress{What: what, Done: done, Total: size}) })
			if err != nil {
				return nil, errors.Join(err, all.Close())
			}
			r.Redact(screen.redact.Redactor())
			r.Own(screen.own.Rules())
			all = append(all, r)
		}
		return all, nil
	})
}

func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > group.MaxProcesses {
		return flags.Usagef("%s takes recordings, %d at most: files written by \"ddtop record --format %s\"", cmd.CommandPath(), group.MaxProcesses, recordingFormat)
	}
	return nil
}
