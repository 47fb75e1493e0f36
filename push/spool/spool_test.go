package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1_700_000_000, 0)

// both runs a test twice: with a queue in memory, and with a queue in a folder.
func both(t *testing.T, l Limits, test func(t *testing.T, q *Queue)) {
	t.Run("memory", func(t *testing.T) { test(t, InMemory(l)) })
	t.Run("folder", func(t *testing.T) {
		q := open(t, t.TempDir(), l)
		defer q.Close()
		test(t, q)
	})
}

func open(t *testing.T, folder string, l Limits) *Queue {
	t.Helper()
	q, err := Open(folder, l)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func put(t *testing.T, q *Queue, text string) {
	t.Helper()
	if err := q.Put(at, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// drain takes all entries out of the queue and returns their data, the oldest first.
func drain(t *testing.T, q *Queue) string {
	t.Helper()
	var all []string
	for {
		name, data, err := q.Oldest()
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			return strings.Join(all, " ")
		}
		all = append(all, string(data))
		if err := q.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOldestFirst(t *testing.T) {
	both(t, Limits{1 << 20, 100}, func(t *testing.T, q *Queue) {
		put(t, q, "a")
		if err := q.Put(at.Add(-time.Hour), []byte("b")); err != nil { // as if the clock was set back
			t.Fatal(err)
		}
		put(t, q, "")
		put(t, q, "c")
		if got := drain(t, q); got != "a b  c" {
			t.Errorf("got %q", got)
		}
		s := q.Stats()
		if s != (Stats{}) {
			t.Errorf("figures of an empty queue: %+v", s)
		}
	})
}

func TestLimits(t *testing.T) {
	both(t, Limits{Bytes: 10, Count: 3}, func(t *testing.T, q *Queue) {
		for _, text := range []string{"a", "b", "c", "d"} {
			put(t, q, text)
		}
		if s := q.Stats(); s.Count != 3 || s.Dropped != 1 || s.DroppedBytes != 1 || s.Bytes != 3 {
			t.Errorf("after four of three: %+v", s)
		}
		put(t, q, "123456789")
		if s := q.Stats(); s.Count != 2 || s.Bytes != 10 || s.Dropped != 3 {
			t.Errorf("after nine bytes: %+v", s)
		}
		if err := q.Put(at, make([]byte, 11)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if s := q.Stats(); s.Dropped != 4 || s.DroppedBytes != 14 {
			t.Errorf("after one that is too large: %+v", s)
		}
		if got := drain(t, q); got != "d 123456789" {
			t.Errorf("got %q", got)
		}
	})
}

// TestTheOneBeingSentStays: the queue does not drop the entry that is being sent. Otherwise the entry would be counted
// both as sent and as dropped.
func TestTheOneBeingSentStays(t *testing.T) {
	both(t, Limits{Bytes: 100, Count: 2}, func(t *testing.T, q *Queue) {
		put(t, q, "a")
		put(t, q, "b")
		name, _, err := q.Oldest()
		if err != nil {
			t.Fatal(err)
		}
		put(t, q, "c") // b is dropped
		if err := q.Remove(name); err != nil {
			t.Fatal(err)
		}
		if got, s := drain(t, q), q.Stats(); got != "c" || s.Dropped != 1 {
			t.Errorf("left %q, %+v", got, s)
		}
	})
}

func TestWhatWasLeftIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	q := open(t, dir, Limits{1000, 10})
	for i := range 5 {
		put(t, q, fmt.Sprint(i))
	}
	if _, err := Open(dir, Limits{1000, 10}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, nameOf(1)+unfinished), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	q = open(t, dir, Limits{1000, 3})
	defer q.Close()
	if s := q.Stats(); s.Count != 3 || s.Dropped != 2 || s.Bytes != 3 {
		t.Errorf("with room for three: %+v", s)
	}
	put(t, q, "new")
	if got := drain(t, q); got != "3 4 new" {
		t.Errorf("got %q", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != lockName {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir, Limits{1 << 20, 100})
	defer q.Close()
	for _, text := range []string{"cut", "empty", "changed", "gone", "whole"} {
		put(t, q, text)
	}
	file := func(i int) string { return filepath.Join(dir, q.entries[i].name) }
	flipped, err := os.ReadFile(file(2))
	if err != nil {
		t.Fatal(err)
	}
	flipped[len(flipped)-1] ^= 1
	for _, err := range []error{os.Truncate(file(0), headerSize+1), os.Truncate(file(1), 0), os.WriteFile(file(2), flipped, 0o600), os.Remove(file(3))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, s := drain(t, q), q.Stats(); got != "whole" || s.Damaged != 4 || s.Count != 0 || s.Bytes != 0 {
		t.Errorf("got %q, %+v", got, s)
	}
}

// failing is a store whose writes can fail. If err is not nil, a write returns err and writes nothing.
type failing struct {
	store
	err error
}

func (f *failing) write(name string, data []byte) error {
	if f.err != nil {
		return f.err
	}
	return f.store.write(name, data)
}

// TestDiskThatFails: if an entry cannot be written to the disk, the queue keeps it in memory. The order of all entries
// stays the same.
func TestDiskThatFails(t *testing.T) {
	q := open(t, t.TempDir(), Limits{1000, 10})
	defer q.Close()
	put(t, q, "a")
	f := &failing{store: q.store, err: errors.New("the disk is gone")}
	q.store = f
	if err := q.Put(at, []byte("b")); !errors.Is(err, ErrNotOnDisk) || !errors.Is(err, f.err) {
		t.Errorf("put: %v", err)
	}
	if s := q.Stats(); s.Count != 2 || s.InMemory != 1 || s.Dropped != 0 {
		t.Errorf("figures: %+v", s)
	}
	f.err = nil
	put(t, q, "c")
	if got := drain(t, q); got != "a b c" {
		t.Errorf("got %q", got)
	}
	if s := q.Stats(); s != (Stats{}) {
		t.Errorf("figures at the end: %+v", s)
	}
}

// TestFolderThatIsGone: if the folder is removed or replaced while the queue uses it, the queue creates the folder
// again and locks it.
func TestFolderThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "spool")
	q := open(t, dir, Limits{1000, 10})
	defer q.Close()
	put(t, q, "a")
	for i, gone := range []func() error{
		func() error { return os.RemoveAll(dir) },
		func() error { return os.RemoveAll(filepath.Dir(dir)) },
		func() error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
	} {
		if err := gone(); err != nil {
			t.Fatal(err)
		}
		put(t, q, fmt.Sprint(i))
		if _, err := Open(dir, Limits{1000, 10}); !errors.Is(err, ErrInUse) {
			t.Errorf("a second one: %v", err)
		}
	}
	if got, s := drain(t, q), q.Stats(); got != "2" || s.Remade != 3 || s.Damaged != 3 || s.Count != 0 {
		t.Errorf("got %q, %+v", got, s)
	}
	// With a file in its place, the folder cannot be created again. New entries must then be kept in memory.
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := q.Put(at, []byte("b")); !errors.Is(err, ErrNotOnDisk) {
		t.Errorf("with a file in its place: %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	put(t, q, "c")
	if got := drain(t, q); got != "b c" {
		t.Errorf("got %q", got)
	}
}

// content returns the data of entry n: the number n, and bytes that depend on n. The process that uses the spool writes
// this data. So the test can check the data after it has killed the process.
func content(n int) []byte {
	b := fmt.Appendf(nil, "%d ", n)
	return append(b, bytes.Repeat([]byte{byte(n)}, 1+n*7919%50_000)...)
}

// TestMain runs the tests. If DDTOP_TEST_SPOOL is set, it instead acts as the process that TestKilled starts and kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("DDTOP_TEST_SPOOL"); dir != "" {
		fillAndEmpty(dir)
	}
	os.Exit(m.Run())
}

// fillAndEmpty puts entries into a queue and removes them, until the process is killed. It prints "+N" after it has put
// entry N, and "-N" before it removes entry N.
func fillAndEmpty(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	q, err := Open(dir, Limits{1 << 30, 1000})
	fail(err)
	n := 0
	if len(q.entries) > 0 { // go on where the killed process stopped
		last := q.entries[len(q.entries)-1]
		data, err := q.store.read(last.name)
		fail(err)
		_, err = fmt.Sscan(string(data[:bytes.IndexByte(data, ' ')]), &n)
		fail(err)
		n++
	}
	for {
		fail(q.Put(time.Now(), content(n)))
		fmt.Printf("+%d\n", n)
		n++
		if rand.IntN(3) > 0 && len(q.entries) > 1 { // always leave at least one entry
			name, data, err := q.Oldest()
			fail(err)
			fmt.Printf("-%s\n", data[:bytes.IndexByte(data, ' ')])
			fail(q.Remove(name))
		}
	}
}

// checkKilled compares the spool of a killed process with what the process has printed. The spool must have all entries
// that were put and not removed, in order and complete.
func checkKilled(t *testing.T, dir string, said io.Reader, there map[int]bool) {
	t.Helper()
	for {
		var word string
		if _, err := fmt.Fscanln(said, &word); err != nil {
			break
		}
		var n int
		if _, err := fmt.Sscanf(word[1:], "%d", &n); err != nil {
			t.Fatalf("it said %q", word)
		}
		if word[0] == '+' {
			there[n] = true
		} else {
			delete(there, n)
		}
	}
	q := open(t, dir, Limits{1 << 30, 1000})
	defer q.Close()
	last, found := -1, make(map[int]bool)
	for _, e := range q.entries {
		data, err := q.store.read(e.name)
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		var n int
		if _, err := fmt.Sscan(string(data[:bytes.IndexByte(data, ' ')]), &n); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, content(n)) || e.size != int64(len(data)) {
			t.Errorf("entry %d is not what was put", n)
		}
		if n <= last {
			t.Errorf("entry %d comes after %d", n, last)
		}
		last, found[n] = n, true
	}
	for n := range there {
		if !found[n] {
			t.Errorf("entry %d was put and is not there", n)
		}
	}
	// the map found also has an entry if the kill came between its Put and "+N", or between "-N" and its Remove
	for n := range found {
		there[n] = true
	}
}

// TestMarksOutliveTheQueue: the mark of an entry survives a restart of ddtop, without the fields that have a meaning
// only in one run. When the entry is removed, its mark is removed, too.
func TestMarksOutliveTheQueue(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir, Limits{1000, 10})
	for _, text := range []string{"a", "b", "c", "d"} {
		put(t, q, text)
	}
	names := func() (out []string) {
		for i := range q.entries {
			out = append(out, q.entries[i].name)
		}
		return out
	}()
	later := time.Now().Add(time.Minute)
	for name, m := range map[string]Mark{
		names[0]: {Group: "shop", Failed: 7, Blamed: 4, SentBefore: 9, Until: later},
		// the value of Until is as if the clock was set back after the mark was written
		names[1]: {Failed: 1, Until: time.Now().Add(2 * maxUntil)},
		names[2]: {Failed: 2},
	} {
		if err := q.Note(name, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(q.Note(names[0], Mark{Group: "shop", Failed: 8, Blamed: 5, SentBefore: 9, Until: later}), q.Remove(names[2]), q.Close(),
		os.WriteFile(filepath.Join(dir, nameOf(7)+marked), []byte("of an entry that is gone"), 0o600),
		os.WriteFile(filepath.Join(dir, names[3]+marked), []byte("no mark"), 0o600),
		os.WriteFile(filepath.Join(dir, names[0]+marked+unfinished), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	q = open(t, dir, Limits{1000, 10})
	defer q.Close()
	want := []Mark{{Failed: 8, Blamed: 5, Until: later.Round(0)}, {Failed: 1}, {}}
	if len(q.entries) != len(want) || q.Stats().Aside != 1 {
		t.Fatalf("%+v, %+v", q.entries, q.Stats())
	}
	for i, m := range want {
		if got := q.entries[i].mark; !got.Until.Equal(m.Until) || got.Failed != m.Failed || got.Blamed != m.Blamed || got.Group != "" {
			t.Errorf("entry %d: %+v, want %+v", i, got, m)
		}
	}
	if got := drain(t, q); got != "a b d" {
		t.Errorf("got %q", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != lockName {
		t.Errorf("left: %v, %v", left, err)
	}
}
