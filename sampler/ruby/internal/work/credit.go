package work

import "errors"

// maxCredit limits the time for new searches that can be saved up while none is needed, in ns. It is enough to search
// all threads of a new process at once.
const maxCredit = 5e6

// errPutOff means that the time for new searches is used up. A later tick makes the search.
var errPutOff = errors.New("put off")

// Allow adds ns nanoseconds to the time for new searches. Before the first call this time has no limit. Checks of work
// that is already known are not limited.
func (f *allowance) Allow(ns int64) {
	if !f.bounded {
		f.bounded, f.credit = true, maxCredit
	}
	f.credit = min(f.credit+ns, maxCredit)
}

// Unbounded calls the function look. New searches in this call have no limit on their time.
func (f *allowance) Unbounded(look func()) {
	bounded := f.bounded
	f.bounded = false
	look()
	f.bounded = bounded
}

// onCredit calls the function look, which makes a new search, and subtracts its time from the credit. It returns
// errPutOff, without the call, if no credit is left.
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
