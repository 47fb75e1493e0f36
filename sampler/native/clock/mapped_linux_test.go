package clock

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func timeNS(t *testing.T) int64 {
	t.Helper()
	now, err := monotonic()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// TestSteady: if the process maps a file as code, Steady returns false for a period that includes the time of the
// mapping. It returns true for periods before and after. Memory without a file, and mappings of other processes, do not
// count.
func TestSteady(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	f, err := Follow(Target{PID: os.Getpid()}, Hz)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const none = 1 << 22 // no process has this PID (PID_MAX_LIMIT)
	other, err := Follow(Target{PID: none}, Hz)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	mapCode := func(fd, flags int) {
		t.Helper()
		b, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|flags)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Munmap(b); err != nil {
			t.Fatal(err)
		}
	}
	steady := func(f *Feed, from, to int64, want bool) {
		t.Helper()
		if got, err := f.Steady(from, to); err != nil || got != want {
			t.Errorf("steady: %v, %v", got, err)
		}
	}
	began := timeNS(t)
	steady(f, began, began, true)
	steady(f, 0, began, false)
	mapCode(-1, unix.MAP_ANONYMOUS)
	before := timeNS(t)
	mapCode(int(program.Fd()), 0)
	after := timeNS(t)
	steady(f, began, before, true)
	steady(f, before, after, false)
	steady(f, after, timeNS(t), true)
	steady(other, began, timeNS(t), true)
	// The process makes more mappings than the kernel has room to record. Records are lost, so Steady must return false
	// for every process.
	for range recordPages * os.Getpagesize() / leastMapped {
		mapCode(int(program.Fd()), 0)
	}
	steady(other, after, timeNS(t), false)
	end := timeNS(t)
	steady(f, end, timeNS(t), true)
	for range 3 * maxChanges {
		f.changed(change{end + 100, end + 100})
		end += 100
	}
	if len(f.changes) > maxChanges {
		t.Errorf("%d times are kept", len(f.changes))
	}
	steady(f, before, after, false)
	steady(f, end-50, end-10, true)
	steady(f, end-50, end, false)
}

// FuzzRecords: for any records, eachRecord ends, and reports only mappings of files.
func FuzzRecords(f *testing.F) {
	record := func(kind uint32, size, inode int) []byte {
		b := make([]byte, size)
		binary.LittleEndian.PutUint32(b, kind)
		binary.LittleEndian.PutUint16(b[recordSize:], uint16(size))
		if size >= leastMapped {
			binary.LittleEndian.PutUint64(b[recordInode:], uint64(inode))
		}
		return b
	}
	whole := slices.Concat(
		record(unix.PERF_RECORD_MMAP2, leastMapped, 7), record(unix.PERF_RECORD_MMAP2, leastMapped, 0),
		record(unix.PERF_RECORD_THROTTLE, 32, 0), record(unix.PERF_RECORD_LOST, 24, 0),
		record(unix.PERF_RECORD_MMAP2, 64, 0))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(make([]byte, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		gotMapped, gotLost := 0, 0
		eachRecord(b, func(uint32, int64) { gotMapped++ }, func() { gotLost++ })
		if gotMapped+gotLost > len(b) {
			t.Errorf("%d of %d bytes", gotMapped+gotLost, len(b))
		}
		if slices.Equal(b, whole) && (gotMapped != 1 || gotLost != 2) {
			t.Errorf("%d mappings, %d lost", gotMapped, gotLost)
		}
	})
}
