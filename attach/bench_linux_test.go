package attach

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// benchTarget starts a helper and returns it with the address of a readable page.
func benchTarget(b *testing.B) (*Process, Address) {
	b.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperMode+"=pages")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	var base uint64
	if _, err := fmt.Fscan(stdout, &base); err != nil {
		b.Fatal(err)
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p, Address(base)
}

func BenchmarkRead(b *testing.B) {
	p, base := benchTarget(b)
	buf := make([]byte, 24)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Read(base, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadBatch(b *testing.B) {
	p, base := benchTarget(b)
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			ranges := make([]Range, n)
			for i := range ranges {
				ranges[i] = Range{Addr: base + Address(i), Buf: make([]byte, 24)}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.ReadBatch(ranges); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadBatchWithFaults(b *testing.B) {
	p, base := benchTarget(b)
	ranges := make([]Range, 1000)
	for i := range ranges {
		ranges[i] = Range{Addr: base + Address(i%2)*livePage, Buf: make([]byte, 24)}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.ReadBatch(ranges); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	p, _ := benchTarget(b)
	for b.Loop() {
		if err := p.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	for b.Loop() {
		if _, err := List(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
