package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// ddtop is the path of the binary under test. It is DDTOP_TEST_BINARY, or a binary that buildAndRun builds.
var ddtop string

// atOnce limits how many tests run at the same time, unless -parallel is given. Most tests wait more than they compute.
const atOnce = "4"

// limit bounds how long one run of the binary may take. Even the slowest machine needs less.
const limit = 10 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if ddtop = os.Getenv("DDTOP_TEST_BINARY"); ddtop != "" {
		return m.Run()
	}
	// Some tests run the binary as another user, so all users must be able to read the folder.
	dir, err := os.MkdirTemp("", "ddtop-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ddtop = filepath.Join(dir, "ddtop")
	build := exec.Command("go", "build", "-o", ddtop, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building ddtop: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is the exit code and the output of a run of the binary.
type result struct {
	code     int
	out, err string
}

// prepare returns a command that runs the binary without a terminal, and the buffers for its output and errors.
func prepare(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, ddtop, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	return cmd, &out, &errs
}

// finish waits until a started binary ends, and returns its result. A panic of ddtop fails the test.
func finish(t *testing.T, cmd *exec.Cmd, out, errs *bytes.Buffer) result {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, errs)
	}
	r := result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	if strings.Contains(r.err, "goroutine ") {
		t.Errorf("%v panicked:\n%s", cmd.Args, r.err)
	}
	return r
}

// run runs the binary to its end, without a terminal.
func run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd, out, errs := prepare(ctx, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return finish(t, cmd, out, errs)
}

// want checks a run's exit code, and that standard error contains each of the texts. If the code is not 0, standard
// error must be a single line that begins with "ddtop: ".
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; it said %q", r.code, code, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.err, text) {
			t.Errorf("it said %q, want %q in it", r.err, text)
		}
	}
	if code != 0 && (strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "ddtop: ")) {
		t.Errorf("it said %q, want one line that begins with ddtop:", r.err)
	}
}

// An unprivileged user, without permission to read processes of other users.
var nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
