package work

import "errors"

// maxCredit is the time that new searches may take at once after a pause, in ns. It is enough to search all threads of
// a new process.
const maxCredit = 5e6

// errPutOff means that new searches have used up their time, and a later tick continues.
var errPutOff = errors.New("put off")

// Allow adds ns nanoseconds to the time for new searches. From the first call on this time is limited. Known work is
// confirmed whatever the limit.
func (f *allowance) Allow(ns int64) {
	if !f.bounded {
		f.bounded, f.credit = true, maxCredit
	}
	f.credit = min(f.credit+ns, maxCredit)
}

// Unbounded runs look without a limit on the time of new searches.
func (f *allowance) Unbounded(look func()) {
	bounded := f.bounded
	f.bounded = false
	look()
	f.bounded = bounded
}

// onCredit runs a new search if there is time for it.
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
