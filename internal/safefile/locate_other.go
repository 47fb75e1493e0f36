//go:build !linux

package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder opens a folder, and makes it (0700) with those above it that are missing.
func MakeFolder(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// Locate finds where a path leads, by links too.
func Locate(path string) (*Destination, error) {
	full := path
	if end, err := filepath.EvalSymlinks(path); err == nil {
		full = end
	}
	dir, err := os.OpenRoot(filepath.Dir(full))
	if err != nil {
		return nil, fmt.Errorf("%s can't be written: %w", path, err)
	}
	info, err := os.Stat(full)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s can't be written: %w", path, err), dir.Close())
	}
	return &Destination{dir: dir, name: filepath.Base(full), Path: path, Info: info}, nil
}
