package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a file of mode 0600 under a temporary name in the same folder and renames it when it is complete:
// path then holds all of it or what it held before. A symbolic link is followed. What is no regular file (a device, a
// pipe) is written to as it is, never replaced. Nothing is written when write fails.
func WriteFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("write file: %w", err)
	case info.IsDir():
		return fmt.Errorf("write %s: it is a folder: give the name of a file", path)
	case !info.Mode().IsRegular():
		return writeInto(path, b.Bytes())
	default:
		// A link keeps pointing to the file it points to.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return replaceFile(path, b.Bytes())
}

func writeInto(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

func replaceFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
