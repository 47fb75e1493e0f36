package stackmem

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach/mapped"
)

// TestGrownPagesAreThere checks that all pages of the memory from Grow are present. Otherwise the kernel would have to
// provide a page while a stack is copied, and the copy would be torn.
func TestGrownPagesAreThere(t *testing.T) {
	for _, n := range []int{0, 1, mapped.PageSize, 3*mapped.PageSize - 1, 64 * mapped.PageSize, 8 << 20} {
		b := Grow(nil, n)
		if len(b) != n {
			t.Fatalf("Grow(nil, %d) has a length of %d", n, len(b))
		}
		all := b[:cap(b)]
		if len(all) == 0 {
			continue
		}
		page := uintptr(unix.Getpagesize())
		from := uintptr(unsafe.Pointer(&all[0])) &^ (page - 1)
		last := uintptr(unsafe.Pointer(&all[len(all)-1])) &^ (page - 1)
		there := make([]byte, (last-from)/page+1)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, from, last-from+page, uintptr(unsafe.Pointer(&there[0]))); errno != 0 {
			t.Fatal(errno)
		}
		for i, is := range there {
			if is&1 == 0 {
				t.Errorf("of %d bytes, page %d of %d is not there", n, i, len(there))
				break
			}
		}
	}
}
