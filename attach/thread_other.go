//go:build !linux

package attach

// OnOwnThread calls work in a goroutine of its own: nothing that is done here changes a thread.
func OnOwnThread(work func()) { go work() }
