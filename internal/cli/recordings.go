package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
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

func (r recordings) close() error {
	var errs []error
	for _, x := range r {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// replaySeveral shows the recordings of several processes.
func replaySeveral(ctx context.Context, screen *screenFlags, paths []string, std Streams) (err error) {
	var all recordings
	defer func() { err = errors.Join(err, all.close()) }()
	s := shown{replay: true}
	for _, path := range paths {
		r, err := openRecording(path, std)
		if err != nil {
			return err
		}
		all = append(all, r)
		if damage := r.Damage(); damage != nil {
			s.notice = damage.Error()
		}
	}
	return screen.showGroup(ctx, all, std, s)
}

func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > live.MaxProcesses {
		return usageErrorf("%s takes recordings, %d at most: files written by \"ddtop record --format %s\"", cmd.CommandPath(), live.MaxProcesses, recordingFormat)
	}
	return nil
}
