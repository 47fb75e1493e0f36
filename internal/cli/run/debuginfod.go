package run

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/sampler"
)

const debuginfodHelp = `
--debuginfod gets missing names of C functions from the servers in DEBUGINFOD_URLS. They learn the build ids of the
process's libraries. Without it ddtop asks no server. See docs/reference/native.md.`

// debugWait is how long a dump waits for the download of debug files.
const debugWait = 5 * time.Second

// Debuginfod is the flag --debuginfod, which downloads debug files. Client is nil without the flag.
type Debuginfod struct{ Client *debuginfod.Client }

// AddTo adds --debuginfod to a command whose RunE is already set. When the command is done, it prints which debug files
// could not be downloaded.
func (d *Debuginfod) AddTo(cmd *cobra.Command, std Streams) {
	on, body := false, cmd.RunE
	cmd.Flags().BoolVar(&on, "debuginfod", false, "get names of C functions from DEBUGINFOD_URLS")
	cmd.Long += "\n" + debuginfodHelp
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !on {
			return body(cmd, args)
		}
		client, err := debuginfod.Open()
		if err != nil {
			return flags.Usagef("--debuginfod: %w", err)
		}
		defer client.Close()
		d.Client = client
		err = body(cmd, args)
		missing := client.Missing(func(library string) string {
			return std.Redact.Redactor().NativeFrame(sampler.NativeFrame{Library: library}).Library
		})
		if missing != "" {
			std.Say("%s", missing)
		}
		return err
	}
}

// Fetch downloads the debug files for the C functions on native stacks, for at most debugWait. It reads the stacks to
// find out which debug files are needed.
func (d *Debuginfod) Fetch(ctx context.Context, src NativeSource) {
	if d.Client == nil {
		return
	}
	var tids []int32
	// Ignore errors: the dump reads the same stacks again, and handles errors then.
	threads, _ := src.NativeThreads()
	for _, thread := range threads {
		tids = append(tids, thread.TID)
	}
	if s, err := src.Once(ctx); err == nil {
		_, _ = src.NativeStacks(ctx, s, tids)
	}
	d.Client.Wait(ctx, debugWait)
}
