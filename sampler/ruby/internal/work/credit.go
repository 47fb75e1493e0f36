package work

import "errors"

// maxCredit is how long, in ns, looking anew may take at once after a rest: a new process's threads are all looked at.
const maxCredit = 5e6

// errPutOff: looking anew has taken the time that it may take; a later tick looks.
var errPutOff = errors.New("put off")

// Allow gives looking anew ns more time, and bounds it from now on. What the threads work for already is confirmed in
// any case. Before the first call there is no bound.
func (f *allowance) Allow(ns int64) {
	if !f.bounded {
		f.bounded, f.credit = true, maxCredit
	}
	f.credit = min(f.credit+ns, maxCredit)
}

// Unbounded runs look, in which looking anew takes what time it takes.
func (f *allowance) Unbounded(look func()) {
	bounded := f.bounded
	f.bounded = false
	look()
	f.bounded = bounded
}

// onCredit looks anew, if there is time for it.
func (f *allowance) onCredit(look func() error) error {
	if !f.bounded {
		return look()
	}
	if f.credit <= 0 {
		return errPutOff
	}
	from := f.now()
	err := look()
	f.credit -= f.now() - from
	return err
}
