package stuckfs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/stuckfs"
)

func TestWritesWaitUntilTheyAreReleased(t *testing.T) {
	fs := stuckfs.Mount(t)
	if b, err := os.ReadFile(fs.File("zeros")); err != nil || !bytes.Equal(b, make([]byte, stuckfs.FileSize)) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	out, err := os.Create(filepath.Join(fs.Dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteString("first"); err != nil {
		t.Fatal(err)
	}
	fs.Stick()
	done := make(chan error, 1)
	go func() {
		_, err := out.WriteString("second")
		done <- err
	}()
	for fs.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("the write came back: %v", err)
	default:
	}
	if n := fs.Written(); n != 5 {
		t.Errorf("%d bytes were written, want 5", n)
	}
	fs.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := fs.Written(); n != 11 {
		t.Errorf("%d bytes were written, want 11", n)
	}
	fs.StickSync()
	if _, err := out.WriteString("third"); err != nil {
		t.Fatal(err)
	}
	go func() { done <- out.Sync() }()
	for fs.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("the sync came back: %v", err)
	default:
	}
	fs.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
