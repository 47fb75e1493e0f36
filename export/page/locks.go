package page

import (
	"cmp"
	"fmt"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl/account"
)

// lockText names a lock for which threads wait.
func lockText(l *account.Contended) string {
	name := lockName(l.Kind, l.Object)
	if l.LongestNS == 0 {
		return name
	}
	return fmt.Sprintf("%s, longest %s", name, l.Longest().Prose())
}

// lockName returns the class of a lock, and its address if the address is known.
func lockName(kind string, object uint64) string {
	name := cmp.Or(kind, "lock")
	if a := export.Address(object); a != nil {
		name += " " + *a
	}
	return name
}
