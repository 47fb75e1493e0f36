package thread

import (
	"os"
	"strings"
	"time"
)

func (f files) ReadFile(path string, limit int64) ([]byte, time.Time, error) {
	modified, ok := f[path]
	if !ok || limit != maxSourceBytes {
		return nil, modified, os.ErrNotExist
	}
	return []byte("a\n\tb\r\n" + strings.Repeat("\n", 2*maxSourceLines)), modified, nil
}
