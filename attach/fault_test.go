package attach

import (
	"errors"
	"strings"
	"testing"
)

// TestPanicIsAnError: if the function that is passed to Ask panics, Ask returns an error that names the process and the
// place of the panic.
func TestPanicIsAnError(t *testing.T) {
	_, err := Ask(4242, "looking at its files", func() (int, error) {
		var files []string
		return len(files[len(t.Name())]), nil
	})
	if !errors.Is(err, ErrFault) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"process 4242: ", "index out of range", "attach.TestPanicIsAnError", "fault_test.go:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
