package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/cli/tools"
)

func newMCP(std run.Streams) *cobra.Command {
	redacted := true
	s := tools.Server{Version: Version}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve tools that only read to a program that speaks MCP",
		Long: `Serve tools by the Model Context Protocol on standard input and output, for a program such as an assistant. The tools
list Ruby processes, print a thread dump, measure a process (stat, findings, requests), and compare two recordings.

No tool changes a process, writes a file, or opens the network. A result has at most 32 KB. Names, paths and other
identifying data are replaced, as by --redact of other commands, unless --redact=false is given. No tool shows values of
the program unless the server was started with --values.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Command = func(ctx context.Context, args ...string) (string, error) { return runCommand(ctx, redacted, args) }
			return s.Serve(cmd.Context(), std.In, std.Out)
		},
	}
	cmd.Flags().BoolVar(&redacted, "redact", true, "replace names, paths and other identifying data in results")
	cmd.Flags().BoolVar(&s.Values, "values", false, "let the tool dump show values: ids in paths, arguments of jobs, messages")
	return cmd
}

// runCommand runs a ddtop command within this process, and returns its output.
func runCommand(ctx context.Context, redacted bool, args []string) (string, error) {
	args = append([]string{args[0], fmt.Sprint("--redact=", redacted)}, args[1:]...)
	var out, said bytes.Buffer
	std := run.Streams{In: strings.NewReader(""), Out: &out, Err: &said, Redact: flags.NewRedaction(args), Own: new(flags.OwnCode), Chosen: new(run.Chosen)}
	root := newRoot(std)
	root.SetArgs(args)
	root.SetIn(std.In)
	root.SetOut(&out)
	root.SetErr(&said)
	if err := root.ExecuteContext(ctx); err != nil {
		return "", errors.New(run.OneLine(std.Redact.Redactor().Error(err)))
	}
	return out.String(), nil
}
