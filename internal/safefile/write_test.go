package safefile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWriteFile: if writing a file fails, an existing file keeps its old contents, and no other file remains.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	if err := WriteFile(path, Waiting{}, text("first")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := WriteFile(path, Waiting{}, func(w io.Writer) error {
		if err := text("half")(w); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "first" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if err := WriteFile(path, Waiting{}, text("second")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, []byte("second")) {
		t.Errorf("the file holds %q, %v", b, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, Waiting{}, text("through a link")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "f" {
		t.Errorf("the link points to %q, %v", to, err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "through a link" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestWriteFileDevice: writing to a device does not replace the device with a file.
func TestWriteFileDevice(t *testing.T) {
	before, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	text := func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }
	// The test writes to the device through a link in its own folder. If WriteFile replaced what it finds, it would
	// replace only this link and not the device.
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, Waiting{}, text); err != nil {
		t.Error(err)
	}
	after, err := os.Stat(os.DevNull)
	if err != nil || !os.SameFile(before, after) || after.Mode().IsRegular() {
		t.Errorf("%s is now %v, %v", os.DevNull, after.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
	if err := WriteFile(t.TempDir(), Waiting{}, text); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("error %v", err)
	}
}

// TestWriteFileFullDevice: if a device is full, the error contains the name of the device as the caller wrote it.
func TestWriteFileFullDevice(t *testing.T) {
	const device = "/dev/full"
	if _, err := os.Stat(device); err != nil {
		t.Skip(err)
	}
	err := WriteFile(device, Waiting{}, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
	if want := "write /dev/full: no space left on device"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWriteFilePipe: WriteFile waits until a program opens a named pipe for reading, or until the caller gives up. If
// the program opens the pipe but does not read, WriteFile waits in the same way.
func TestWriteFilePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("x"), 1<<20) // more than a pipe holds
	write := func(w io.Writer) error { _, err := w.Write(content); return err }

	giveUp, waits := make(chan struct{}), make(chan struct{})
	wait := Waiting{GiveUp: giveUp, Begins: func() { close(waits) }}
	done := make(chan error, 1)
	go func() { done <- WriteFile(path, wait, write) }()
	<-waits
	close(giveUp)
	if err := <-done; !errors.Is(err, errNoReader) || !strings.Contains(err.Error(), path) {
		t.Errorf("without a reader: %v", err)
	}

	giveUp, waits = make(chan struct{}), make(chan struct{})
	wait = Waiting{GiveUp: giveUp, Begins: func() { close(waits) }}
	go func() { done <- WriteFile(path, wait, write) }()
	<-waits
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}

	go func() { done <- WriteFile(path, wait, write) }() // the test reads only one byte of the content
	one := make([]byte, 1)
	if _, err := io.ReadFull(waitForBytes{r}, one); err != nil {
		t.Fatal(err)
	}
	close(giveUp)
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a reader that does not read: %v", err)
	}
}

// waitForBytes reads from a pipe. If no program has the pipe open for writing, it waits until a program opens the pipe,
// instead of reporting the end.
type waitForBytes struct{ *os.File }

func (w waitForBytes) Read(b []byte) (int, error) {
	for {
		n, err := w.File.Read(b)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		time.Sleep(time.Millisecond)
	}
}
