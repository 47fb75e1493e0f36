package work

import "errors"

// maxCredit is the time, in ns, that new searches may take at once after a rest. All threads of a new process are
// searched.
const maxCredit = 5e6

// errPutOff means that new searches have used up their time, and a later tick continues.
var errPutOff = errors.New("put off")

// Allow adds ns to the time for new searches, and bounds it from now on. Known work is confirmed in any case. Before
// the first call there is no bound.
func (f *allowance) Allow(ns int64) {
	if !f.bounded {
		f.bounded, f.credit = true, maxCredit
	}
	f.credit = min(f.credit+ns, maxCredit)
}

// Unbounded runs look without a bound on the time of new searches.
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
