package program

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOutputOfACommandIsBounded: the file with a started program's output stays small. ddtop keeps the last part of the
// output, in whole lines, on any file system. It says how much of the output it has removed.
func TestOutputOfACommandIsBounded(t *testing.T) {
	folders := map[string]string{"temporary": t.TempDir()}
	if _, err := os.Stat("/dev/shm"); err == nil {
		dir, err := os.MkdirTemp("/dev/shm", "ddtop-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		folders["tmpfs"] = dir
	}
	for name, dir := range folders {
		f, err := os.CreateTemp(dir, "*.log")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o, err := newCommandOutput(f)
		if err != nil {
			t.Fatal(err)
		}
		o.max, o.kept = 4<<20, 2<<20
		Command, err := unix.Dup(int(f.Fd())) // a second descriptor of the same open file, like the program's
		if err != nil {
			t.Fatal(err)
		}
		writer := os.NewFile(uintptr(Command), "Command")
		defer writer.Close()
		line := 0
		write := func() {
			var b bytes.Buffer
			for b.Len() < 1<<20 {
				line++
				fmt.Fprintf(&b, "line %d\n", line)
			}
			if _, err := writer.Write(b.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		write()
		o.shorten()
		var all strings.Builder
		if err := o.copyTo(&all); err != nil || o.about() != "" || !strings.HasPrefix(all.String(), "line 1\n") {
			t.Errorf("%s: before the limit: %v, %q", name, err, o.about())
		}
		for range 40 {
			write()
			o.shorten()
			var st unix.Stat_t
			if err := unix.Fstat(int(f.Fd()), &st); err != nil {
				t.Fatal(err)
			}
			if taken := st.Blocks * 512; taken > o.max+2<<20 {
				t.Fatalf("%s: it takes %d bytes on the disk", name, taken)
			}
		}
		var out strings.Builder
		if err := o.copyTo(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if !strings.HasPrefix(lines[0], "ddtop: the first ") || !strings.HasSuffix(lines[0], "MB are left out") {
			t.Errorf("%s: it begins with %q", name, lines[0])
		}
		for i, l := range lines[1:] {
			if want := fmt.Sprintf("line %d", line-len(lines)+2+i); l != want {
				t.Fatalf("%s: %q instead of %q", name, l, want)
			}
		}
		if n := out.Len(); int64(n) < o.kept || int64(n) > o.max+1<<20 {
			t.Errorf("%s: %d bytes stay", name, n)
		}
		if about := o.about(); !strings.Contains(about, "without its first ") || o.failed != nil {
			t.Errorf("%s: it says %q", name, about)
		}
		t.Logf("%s: %s", name, o.about())
	}
}

// TestNextLook: the faster a program writes, the sooner ddtop checks the size of the program's output file again. The
// interval stays within its bounds.
func TestNextLook(t *testing.T) {
	const most = 64 << 20
	for _, c := range []struct {
		grown int64
		in    time.Duration
		want  time.Duration
	}{
		{0, outputEvery, outputEvery},
		{-1, outputEvery, outputEvery},
		{1 << 10, outputEvery, outputEvery},
		{16 << 20, outputEvery, outputEvery},
		{160 << 20, outputEvery, outputEvery / 10},
		{16 << 20, 10 * time.Millisecond, 10 * time.Millisecond},
		{64 << 30, outputEvery, leastOutputEvery},
		{1 << 20, 0, leastOutputEvery},
	} {
		if got := nextLook(c.grown, c.in, most); got != c.want {
			t.Errorf("%d bytes in %v: %v, want %v", c.grown, c.in, got, c.want)
		}
	}
}
