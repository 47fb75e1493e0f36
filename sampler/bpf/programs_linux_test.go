package bpf

import (
	"errors"
	"testing"
)

type loaded struct{ closed int }

func (l *loaded) Close() error { l.closed++; return nil }

// TestShared: the first process loads the programs, and the last one removes them. If the first process cannot be
// added, the programs that it loaded are removed, too.
func TestShared(t *testing.T) {
	var s Shared[*loaded]
	var all []*loaded
	open := func() (*loaded, error) {
		all = append(all, new(loaded))
		return all[len(all)-1], nil
	}
	nothing := func(*loaded) error { return nil }
	full := errors.New("full")
	refuse := func(*loaded) error { return full }
	if err := s.Join(open, refuse); !errors.Is(err, full) || all[0].closed != 1 {
		t.Errorf("a first user without room: %v, closed %d times", err, all[0].closed)
	}
	for range 2 {
		if err := s.Join(open, nothing); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Join(open, refuse); !errors.Is(err, full) {
		t.Errorf("a third user without room: %v", err)
	}
	if err := s.Try(open); err != nil {
		t.Error(err)
	}
	if len(all) != 2 || all[1].closed != 0 {
		t.Errorf("with users: loaded %d times, closed %d times", len(all), all[1].closed)
	}
	for range 2 {
		if err := s.Leave(nothing); err != nil {
			t.Error(err)
		}
	}
	if all[1].closed != 1 {
		t.Errorf("closed %d times after the last user", all[1].closed)
	}
	if err := s.Try(func() (*loaded, error) { return nil, full }); !errors.Is(err, full) {
		t.Errorf("programs that cannot be loaded: %v", err)
	}
}
