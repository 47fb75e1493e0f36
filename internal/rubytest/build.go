package rubytest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build identifies the machine code that an interpreter runs: a hash of its executable and its libruby.
type build [sha256.Size]byte

// asksFiles prints the executable and the libruby, where it has one, that the interpreter runs from. A root has no /proc that
// would say so.
const asksFiles = `require "rbconfig"
c = RbConfig::CONFIG
puts File.realpath(RbConfig.ruby)
if c["ENABLE_SHARED"] == "yes"
  dirs = c.values_at("libdir", "archlibdir", "sitearchlibdir").compact
  puts File.realpath(dirs.map { |d| File.join(d, c["LIBRUBY_SO"]) }.find { |f| File.exist?(f) })
end`

// buildOf reads the files that the interpreter itself says it runs from.
func buildOf(r Ruby) (b build, err error) {
	cmd := exec.Command(r.Bin, "--disable=gems", "-e", asksFiles)
	cmd.Dir = "/"
	cmd.SysProcAttr = sysProcAttr(r.Root)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return b, fmt.Errorf("asking %s for its files: %w: %s", r, err, strings.TrimSpace(stderr.String()))
	}
	h := sha256.New()
	for path := range strings.Lines(string(out)) {
		f, err := os.Open(filepath.Join(r.Root, strings.TrimSpace(path)))
		if err != nil {
			return b, fmt.Errorf("the files of %s: %w", r, err)
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return b, fmt.Errorf("the files of %s: %w", r, err)
		}
	}
	h.Sum(b[:0])
	return b, nil
}
