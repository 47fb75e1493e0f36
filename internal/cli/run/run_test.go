package run

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errLate = errors.New("late")

// TestUnless: Unless waits for f and returns its error. If giveUp is closed before f returns, Unless returns the error
// of the function late.
func TestUnless(t *testing.T) {
	failed := errors.New("failed")
	late := func() error { return errLate }
	if err := Unless(nil, late, func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	giveUp, hanging := make(chan struct{}), make(chan struct{})
	defer close(hanging)
	close(giveUp)
	if err := Unless(giveUp, late, func() error { <-hanging; return failed }); !errors.Is(err, errLate) {
		t.Error(err)
	}
}

// TestPatience: the channel giveUp is closed some time after the context ends, and not before.
func TestPatience(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	giveUp, released := PatienceFor(ctx, time.Millisecond)
	select {
	case <-giveUp:
		t.Error("given up while nothing has ended")
	default:
	}
	cancel()
	<-giveUp
	released()
}

// TestPrinter: a Printer prints values in order. If its reader is slow, too many values wait. The Printer loses the
// next ones and counts them. A value that comes after Close is lost, too.
func TestPrinter(t *testing.T) {
	reading := make(chan struct{})
	var printed []int
	p := Print(func(v int) error { <-reading; printed = append(printed, v); return nil }, func() { t.Error("failed") })
	for i := range maxWaiting + 10 {
		p.Add(i)
	}
	close(reading)
	lost := 0
	if err := p.Close(func(_ string, args ...any) { lost = args[0].(int) }); err != nil {
		t.Fatal(err)
	}
	p.Add(0) // this value is lost
	if len(printed)+lost != maxWaiting+10 || lost < 9 || lost > 10 || printed[0] != 0 || printed[len(printed)-1] != len(printed)-1 {
		t.Errorf("%d printed, %d lost", len(printed), lost)
	}
}

// TestPrinterFails: if printing a value fails, the Printer reports this once and does not print the values after it.
func TestPrinterFails(t *testing.T) {
	failed := 0
	p := Print(func(int) error { return errLate }, func() { failed++ })
	for i := range 3 {
		p.Add(i)
	}
	if err := p.Close(t.Errorf); !errors.Is(err, errLate) || failed != 1 {
		t.Errorf("%v, failed %d times", err, failed)
	}
}
