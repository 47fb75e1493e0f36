package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler/live"
)

// coreFlags are the flags of `ddtop dump` that take a core file in place of a process.
type coreFlags struct {
	core  string
	files []string
	root  string
	// readValues is --values of the command.
	readValues bool
	// onlyEndpoints is --endpoint of the command.
	onlyEndpoints func(name string) bool
}

func (f *coreFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.core, "core", "", "read a core `FILE` of the kernel or gcore instead of a process")
	cmd.Flags().StringVar(&f.root, "root", "", "with --core: the `FOLDER` that was the process's root, for a core from a container")
	cmd.Flags().StringArrayVar(&f.files, "exe", nil, "with --core: the `FILE` of the program or a library that has moved; can be repeated")
}

// check refuses flags that go with one of process and core only. It reports whether a core is asked for.
func (f *coreFlags) check(cmd *cobra.Command) (core bool, err error) {
	core = cmd.Flags().Changed("core")
	switch {
	case core && cmd.Flags().Changed("pid"):
		return false, usageErrorf("-p PID looks at a process and --core at a core file: choose")
	case core && f.core == "":
		return false, usageErrorf("--core takes the path of a core file")
	case core && cmd.Flags().Changed("duration"):
		return false, usageErrorf("a core file holds one instant: -d measures a process")
	case !core && (len(f.files) > 0 || f.root != ""):
		return false, usageErrorf("--exe and --root go with --core FILE")
	}
	return core, nil
}

// dump writes the dump of the instant that the core file holds.
func (f *coreFlags) dump(ctx context.Context, rules *gvl.Rules, std Streams, own, asJSON bool) error {
	src, err := live.OpenCore(ctx, f.core, attach.CoreFiles{Root: f.root, Files: f.files}, live.Options{Redactor: std.redact.redactor(), Values: f.readValues, OwnCode: std.own.rules(), Progress: layoutProgress(std.redact)})
	if err != nil {
		return err
	}
	defer src.Close()
	s, err := src.Once(ctx)
	if err != nil {
		return err
	}
	if missing := src.Missing(); missing > 0 {
		std.say("%s was cut short by %d bytes: what they held is missing here", printable(f.core), missing)
	}
	m := gvl.NewMeasure(src.Process(), src.Dictionary(), rules)
	d := export.NewDump(src.Process(), src.Dictionary(), s, m.Classify(s))
	d.FoldLibraries(own)
	addFibers(ctx, d, src)
	d.OnlyEndpoints(f.onlyEndpoints)
	if asJSON {
		return d.WriteJSON(std.results(ctx))
	}
	return d.WriteText(std.results(ctx))
}

// layoutProgress says on standard error how far the reading of debug information is, when an unknown Ruby needs that and
// it takes long. It goes there whatever the command's streams are: they may be a screen's.
func layoutProgress(names *redaction) func(path string, done, total int) {
	var say func(done, total int)
	return func(path string, done, total int) {
		if say == nil {
			say = sayProgress(os.Stderr, names.redactor().Text(path, path))
		}
		say(done, total)
	}
}
