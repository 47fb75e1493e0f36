package attach

import (
	"errors"
	"os"
	"testing"
)

func TestReadFillsFromAnotherProcess(t *testing.T) {
	c := startHelper(t, "pages", nil)
	base := c.address(t)
	p := open(t, c.pid)
	buf := make([]byte, 100)
	if err := p.Read(base+10, buf); err != nil {
		t.Fatal(err)
	}
	for i, b := range buf {
		if b != pattern(i+10) {
			t.Fatalf("byte %d is %d, want %d", i, b, pattern(i+10))
		}
	}
	for _, addr := range []Address{0, base + livePage, base + livePage - 1, 0xffffffff81000000, ^Address(0) - 5} {
		err := p.Read(addr, buf)
		var re *ReadError
		if !errors.Is(err, ErrUnmapped) || !errors.As(err, &re) || re.Addr != addr || re.Want != len(buf) || re.PID != c.pid {
			t.Errorf("reading at %v: %v, want ErrUnmapped with the range", addr, err)
		}
	}
	if err := p.Read(0, nil); err != nil {
		t.Errorf("reading nothing: %v", err)
	}
}

// batch returns n ranges of 16 bytes to read. Every third range lies in a hole of the memory, and every seventh is
// empty.
func batch(base Address, n int) []Range {
	ranges := make([]Range, n)
	for i := range ranges {
		ranges[i] = Range{Addr: base + Address(i%200)*16, Buf: make([]byte, 16)}
		switch {
		case i%3 == 1:
			ranges[i].Addr += livePage
		case i%7 == 0:
			ranges[i].Buf = nil
		case i%5 == 0:
			ranges[i].Addr += 2 * livePage
		}
	}
	return ranges
}

func checkBatch(t *testing.T, base Address, ranges []Range) {
	t.Helper()
	for i, r := range ranges {
		if want := i%3 == 1; r.Failed != want {
			t.Fatalf("range %d: failed is %t, want %t", i, r.Failed, want)
		}
		if r.Failed {
			continue
		}
		for j, b := range r.Buf {
			if want := pattern(int(r.Addr-base) + j); b != want {
				t.Fatalf("range %d byte %d is %d, want %d", i, j, b, want)
			}
		}
	}
}

func TestReadBatchGoesOnBehindFaults(t *testing.T) {
	c := startHelper(t, "pages", nil)
	base := c.address(t)
	p := open(t, c.pid)
	for _, n := range []int{0, 1, 2, 3, 30, 1023, 1024, 1025, 5000} {
		ranges := batch(base, n)
		calls, err := p.ReadBatch(ranges)
		if err != nil {
			t.Fatal(err)
		}
		checkBatch(t, base, ranges)
		if limit := n/3 + n/maxRangesPerCall + 2; calls > limit {
			t.Errorf("%d ranges took %d calls, want at most %d", n, calls, limit)
		}
	}
}

func TestReadBatchWithoutFaultsNeedsOneCallPer1024Ranges(t *testing.T) {
	c := startHelper(t, "pages", nil)
	base := c.address(t)
	p := open(t, c.pid)
	for _, test := range []struct{ ranges, calls int }{{1, 1}, {1024, 1}, {1025, 2}, {3000, 3}} {
		ranges := make([]Range, test.ranges)
		for i := range ranges {
			ranges[i] = Range{Addr: base, Buf: make([]byte, 8)}
		}
		calls, err := p.ReadBatch(ranges)
		if err != nil || calls != test.calls {
			t.Errorf("%d ranges: %d calls, %v; want %d", test.ranges, calls, err, test.calls)
		}
	}
}

func TestReadThroughProcMem(t *testing.T) {
	c := startHelper(t, "pages", nil)
	base := c.address(t)
	p := open(t, c.pid)
	f, err := os.Open(p.Path("mem"))
	if err != nil {
		t.Fatal(err)
	}
	p.mem = f
	if p.Method() != "/proc/PID/mem" {
		t.Errorf("method %s", p.Method())
	}
	ranges := batch(base, 100)
	if _, err := p.ReadBatch(ranges); err != nil {
		t.Fatal(err)
	}
	checkBatch(t, base, ranges)
	if err := p.Read(^Address(0)-100, make([]byte, 10)); !errors.Is(err, ErrUnmapped) {
		t.Errorf("beyond the user's half: %v", err)
	}
	c.kill(t)
	if err := p.Read(base, make([]byte, 10)); !errors.Is(err, ErrGone) {
		t.Errorf("of a dead process: %v, want ErrGone", err)
	}
	ranges = batch(base, 10)
	if _, err := p.ReadBatch(ranges); !errors.Is(err, ErrGone) {
		t.Errorf("batch of a dead process: %v, want ErrGone", err)
	}
}

func TestReadOfADeadProcessIsErrGone(t *testing.T) {
	c := startHelper(t, "pages", nil)
	base := c.address(t)
	p := open(t, c.pid)
	c.kill(t)
	if err := p.Read(base, make([]byte, 8)); !errors.Is(err, ErrGone) {
		t.Errorf("Read: %v, want ErrGone", err)
	}
	ranges := batch(base, 2000)
	if _, err := p.ReadBatch(ranges); !errors.Is(err, ErrGone) {
		t.Errorf("ReadBatch: %v, want ErrGone", err)
	}
	for i, r := range ranges {
		if !r.Failed && len(r.Buf) > 0 {
			t.Fatalf("range %d does not count as failed", i)
		}
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	c := startHelper(t, "pages", nil)
	base := c.address(t)
	p := open(t, c.pid)
	ranges := batch(base, 300)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.ReadBatch(ranges); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("ReadBatch allocates %v times", n)
	}
	buf := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Read(base, buf); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("Read allocates %v times", n)
	}
}
