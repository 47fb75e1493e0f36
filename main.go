// Command ddtop shows what a running Ruby process does: its threads, its Global VM Lock and its flamegraph, live.
package main

import (
	"context"
	"os"

	"github.com/ddtop/ddtop/internal/cli"
	"github.com/ddtop/ddtop/internal/cli/run"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], run.Standard()))
}
