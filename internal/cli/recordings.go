package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/ui"
)

// recordings are files of several processes, as a sampler.Group.
type recordings []*recording.Reader

// Follow hands the recordings out.
func (r recordings) Follow(_ context.Context, join func(sampler.Source)) error {
	for _, x := range r {
		join(x)
	}
	return sampler.ErrEnded
}

// Done does nothing: the history of a recording is read again from its file.
func (r recordings) Done(sampler.Source) {}

// Relatives are the processes recorded. Who forked whom is not in a recording.
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

// loadRecordings opens recordings, with a picture of how far it is where that takes long. What is damaged is not said yet.
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

// replaySeveral shows the recordings of several processes.
func replaySeveral(ctx context.Context, screen *screenFlags, paths []string, std run.Streams) error {
	all, err := loadRecordings(ctx, screen, paths, std)
	if err != nil {
		return notWaitedFor(err)
	}
	s := shown{replay: true}
	for _, r := range all {
		if damage := sayDamage(r, std); damage != "" {
			s.notice = damage
		}
	}
	return errors.Join(screen.showGroup(ctx, all, std, s), all.Close())
}

func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > live.MaxProcesses {
		return flags.Usagef("%s takes recordings, %d at most: files written by \"ddtop record --format %s\"", cmd.CommandPath(), live.MaxProcesses, recordingFormat)
	}
	return nil
}
