package kernel

import (
	"fmt"
	"os"
)

// maxProcFile limits the size of a /proc file that is read as a whole, in bytes.
const maxProcFile = 16 << 20

// readFile reads a whole /proc file, whose length is not known before.
func readFile(path string) ([]byte, error) {
	fd, err := openAt(noFD, path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	defer closeFD(fd)
	return readAll(fd, path)
}

func readAll(fd int, path string) ([]byte, error) {
	buf := make([]byte, 0, os.Getpagesize())
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= maxProcFile {
				return nil, &Error{"read", path, fmt.Errorf("%w: more than %d bytes", errFormat, maxProcFile)}
			}
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := readMore(fd, buf[len(buf):cap(buf)], int64(len(buf)))
		if err != nil {
			return nil, &Error{"read", path, err}
		}
		if n == 0 {
			return buf, nil
		}
		buf = buf[:len(buf)+n]
	}
}
