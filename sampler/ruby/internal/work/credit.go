package work

import "errors"

// maxCredit limits the credit, in ns. The credit is the time for new searches that is saved while no search is needed.
// maxCredit is enough to search all threads of a new process at once.
const maxCredit = 5e6

// errPutOff means that the time for new searches is used up, so that a later tick must make the search.
var errPutOff = errors.New("put off")

// Allow adds ns nanoseconds to the time for new searches. Before the first call of Allow, this time has no limit. The
// checks whether known work is still in progress are never limited.
func (f *allowance) Allow(ns int64) {
	if !f.bounded {
		f.bounded, f.credit = true, maxCredit
	}
	f.credit = min(f.credit+ns, maxCredit)
}

// Unbounded calls the function look, and does not limit the time for new searches during this call.
func (f *allowance) Unbounded(look func()) {
	bounded := f.bounded
	f.bounded = false
	look()
	f.bounded = bounded
}

// onCredit calls the function look, which makes a new search, and subtracts the time that it takes from the credit. If
// no credit is left, it does not call look and returns errPutOff.
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
