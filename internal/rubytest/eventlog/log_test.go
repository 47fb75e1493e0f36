package eventlog

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// file returns a log file with these records, in the format that the C extension writes.
func file(capacity uint64, records ...Record) []byte {
	b := append([]byte{}, magic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(records)))
	b = binary.LittleEndian.AppendUint64(b, capacity)
	for _, r := range records {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.NS))
		b = binary.LittleEndian.AppendUint64(b, r.Thread)
		b = binary.LittleEndian.AppendUint32(b, r.TID)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Event))
	}
	return b
}

func TestWaits(t *testing.T) {
	l, err := Parse(file(11,
		Record{50, 7, 1, Suspended}, Record{60, 8, 2, Resumed}, // thread 8 holds the GVL when the window begins
		// thread 7 waits for 20 ns while thread 8 holds the GVL, and for 5 ns while no thread holds it
		Record{110, 7, 2, Ready}, Record{130, 8, 2, Suspended}, Record{135, 7, 1, Resumed},
		Record{140, 8, 2, Ready}, Record{145, 0, 1, GCEnter}, Record{150, 0, 1, GCExit}, Record{160, 7, 1, Suspended}, Record{160, 8, 2, Resumed},
		Record{190, 7, 1, Ready}, // the end of the window cuts off this wait
	))
	if err != nil {
		t.Fatal(err)
	}
	got := l.Waits(100, 200)
	if want := map[uint32]int64{0: 5, 1: 20, 2: 20 + 10}; !maps.Equal(got.ByHolder, want) || got.TotalNS != 55 || got.LongestNS != 25 {
		t.Errorf("%+v; want %v of 55, the longest 25", got, want)
	}
}

func TestTimes(t *testing.T) {
	for name, c := range map[string]struct {
		records []Record
		want    map[uint32]Times
	}{
		"every state": {
			[]Record{
				{100, 7, 1, Suspended}, {130, 7, 9, Ready}, {150, 7, 1, Resumed}, {160, 0, 1, GCEnter}, {165, 0, 1, GCExit},
			},
			map[uint32]Times{1: {Running: 10 + 35, GC: 5, Waiting: 20, Released: 30}},
		},
		"states from before the window": {
			[]Record{{10, 7, 1, Suspended}, {20, 8, 1, Ready}, {30, 8, 2, Resumed}, {90, 9, 3, Ready}, {95, 9, 3, Resumed}, {96, 9, 3, Suspended}, {97, 9, 2, Ready}},
			map[uint32]Times{1: {Released: 100}, 2: {Running: 100}, 3: {Waiting: 100}},
		},
		"a thread's first event tells what was before": {
			[]Record{{150, 7, 1, Suspended}, {160, 8, 1, Ready}, {170, 8, 2, Resumed}},
			map[uint32]Times{1: {Running: 50, Released: 50}, 2: {Released: 60, Waiting: 10, Running: 30}},
		},
		"started and ended within": {
			[]Record{{110, 7, 1, Started}, {120, 7, 1, Ready}, {130, 7, 1, Resumed}, {150, 7, 1, Exited}},
			map[uint32]Times{1: {Waiting: 20, Running: 20}},
		},
		"started by another, and not begun": {
			[]Record{{100, 8, 1, Resumed}, {190, 7, 1, Started}, {195, 7, 1, Ready}},
			map[uint32]Times{1: {Running: 100}},
		},
		"3.2 names no threads": {
			[]Record{{100, 0, 1, Resumed}, {120, 0, 1, Ready}, {130, 0, 2, Ready}, {150, 0, 1, Resumed}},
			map[uint32]Times{1: {Waiting: 30, Running: 20 + 50}, 2: {Released: 30, Waiting: 70}},
		},
		"out of order": {
			[]Record{{150, 7, 1, Resumed}, {120, 7, 1, Ready}},
			map[uint32]Times{1: {Released: 20, Waiting: 30, Running: 50}},
		},
	} {
		l, err := Parse(file(10, c.records...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := l.Times(100, 200); !maps.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := file(2, Record{1, 2, 3, Ready}, Record{2, 2, 3, Resumed})
	for name, data := range map[string][]byte{
		"nothing": nil, "another file": []byte(strings.Repeat("x", 48)), "cut off": good[:len(good)-1],
		"full": file(1, Record{1, 2, 3, Ready}, Record{2, 2, 3, Resumed}),
	} {
		if _, err := Parse(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Parse(good); err != nil {
		t.Error(err)
	}
}

// TestExtension: on every Ruby, the extension must log a garbage collection. From 3.2 on, it must also log all thread
// events of a thread that sleeps and of the main thread.
func TestExtension(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		const program = `$stdout.sync = true
$stdin.gets
require "./eventlog"
sleeper = Thread.new { sleep 0.2 }
GC.start
sleeper.join
eventlog_write
puts "written"
$stdin.gets`
		p := r.Start(t, program, rubytest.Options{Env: Env("events")})
		Install(t, p.HostDir)
		p.Send(t, "installed")
		p.Expect(t, "written")
		data, err := os.ReadFile(filepath.Join(p.HostDir, "events"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[Event]int)
		for _, e := range l.Records {
			seen[e.Event]++
		}
		if seen[GCEnter] == 0 || seen[GCEnter] != seen[GCExit] {
			t.Errorf("events of the collector: %v", seen)
		}
		if !ThreadEvents(r) {
			if len(seen) != 2 {
				t.Errorf("thread events on %s: %v", r, seen)
			}
			return
		}
		for _, e := range []Event{Started, Ready, Resumed, Suspended, Exited} {
			if seen[e] == 0 {
				t.Errorf("no event %d: %v", e, seen)
			}
		}
		if len(l.Records) == 0 {
			return
		}
		times := l.Times(l.Records[0].NS, l.Records[len(l.Records)-1].NS)
		main := times[uint32(p.PID)]
		if main.Released < 100e6 || main.GC == 0 {
			t.Errorf("main slept for 200 ms and collected once: %+v of %+v", main, times)
		}
	})
}
