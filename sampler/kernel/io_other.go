//go:build !linux

package kernel

const noFD = -1

func openDir(string) (int, error)     { return noFD, ErrUnsupported }
func openAt(int, string) (int, error) { return noFD, ErrUnsupported }
func pread(int, []byte) (int, error)  { return 0, ErrUnsupported }

func readMore(int, []byte, int64) (int, error)             { return 0, ErrUnsupported }
func closeFD(int)                                          {}
func readlinkAt(int, []byte, []byte) (int, error)          { return 0, ErrUnsupported }
func fileType(int, string) (mode, major uint32, err error) { return 0, 0, ErrUnsupported }
func openFileLimit() int                                   { return 0 }
func machine() string                                      { return "" }
func monotonic() int64                                     { return 0 }
func listNumbers(_ int, _, path string, buf []int32) ([]int32, error) {
	return buf, &Error{"open", path, ErrUnsupported}
}
