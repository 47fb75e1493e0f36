package cli

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/flags"
)

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration // zero if the text is refused
	}{
		{"10s", 10 * time.Second}, {"10", 10 * time.Second}, {"0.5", 500 * time.Millisecond}, {"1m30s", 90 * time.Second},
		{"250ms", 250 * time.Millisecond}, {"1h", time.Hour}, {"1e2", 100 * time.Second},
		{"", 0}, {"s", 0}, {"ten", 0}, {"-1", 0}, {"-1s", 0}, {"0", 0}, {"0s", 0}, {"2h", 0}, {"NaN", 0}, {"Inf", 0}, {"1e300", 0}, {"10 s", 0},
	} {
		d := flags.Duration{Min: time.Millisecond, Max: time.Hour}
		err := d.Set(c.text)
		if (err == nil) != (c.want != 0) || d.Value != c.want {
			t.Errorf("%q is %v, %v; want %v", c.text, d.Value, err, c.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"puma 6.4: cluster worker 0":    "puma 6.4: cluster worker 0",
		"Größe 日本語":                     "Größe 日本語",
		"a\x1b[2Jb":                     "a\ufffd[2Jb",
		"a\nb\rc\x00d\u009b":            "a\ufffdb\ufffdc\ufffdd\ufffd",
		"invalid \xff\xfe UTF-8":        "invalid \ufffd UTF-8",
		"right\u202eto\u2066left\u200b": "right\ufffdto\ufffdleft\ufffd",
	} {
		if got := flamegraph.Printable(text); got != want {
			t.Errorf("%q prints as %q, want %q", text, got, want)
		}
	}
}

func TestExitCode(t *testing.T) {
	target := func(kind error) error { return &attach.TargetError{PID: 7, Kind: kind} }
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("any"), exitFailed},
		{flags.Usagef("wrong"), exitUsage},
		{fmt.Errorf("checking: %w", flags.Usagef("wrong")), exitUsage},
		{target(attach.ErrPermission), exitPermission},
		{target(attach.ErrNoProcess), exitNotReadable},
		{target(attach.ErrZombie), exitNotReadable},
		{target(attach.ErrKernelThread), exitNotReadable},
		{target(attach.ErrSelf), exitNotReadable},
		{target(attach.ErrNotRuby), exitNotReadable},
		{target(attach.ErrNotLoaded), exitNotReadable},
		{target(attach.ErrGone), exitNotReadable},
		{fmt.Errorf("process 7: %w", layout.ErrUnknownRelease), exitNotReadable},
		{target(attach.ErrLinuxOnly), exitFailed},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
