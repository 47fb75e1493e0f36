package cli

import (
	"cmp"
	"log/slog"
	"os"
)

const (
	// envFileVariable names the file that ddtop push has its environment from, where that is not envFile. The unit for systemd sets it.
	envFileVariable = "DDTOP_ENV_FILE"
	envFile         = "/etc/ddtop/push.env"
)

// warnOfOpenKeys says when others may read the file with the keys of destinations.
func warnOfOpenKeys(log *slog.Logger) {
	path := cmp.Or(os.Getenv(envFileVariable), envFile)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return // there is none
	}
	if mode := info.Mode().Perm(); mode&0o044 != 0 {
		log.Warn("others can read the file with the keys of destinations", "file", path, "mode", mode.String(), "run", "chmod 600 "+shellWords([]string{path}))
	}
}
