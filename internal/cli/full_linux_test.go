package cli_test

import (
	"os"
	"strings"
	"testing"
)

// TestFullDisk: if standard output is a file on a full disk, a command ends with an error. This is also true when it
// prints a help text.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range []string{"help", "dump --help", "version", "completion bash", "ps", "ps --json"} {
		cmd, out, errs := prepare(t.Context(), strings.Fields(args)...)
		cmd.Stdout = full
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		finish(t, cmd, out, errs).want(t, 1, "no space left on device")
	}
}
