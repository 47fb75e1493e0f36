//go:build !linux

package safefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ReadTrusted reads a file of at most limit bytes that decides what ddtop does.
func ReadTrusted(path string, limit int64) ([]byte, error) {
	f, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	content, err := f.ReadAll(limit)
	return content, errors.Join(err, f.Close())
}

// WriteTrusted writes a file whole, or not at all, that ReadTrusted will read.
func WriteTrusted(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return WriteFile(path, Waiting{}, write)
}
