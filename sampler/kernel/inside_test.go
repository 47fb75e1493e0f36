package kernel

import "testing"

// TestInsideOf: the text describes the innermost kernel function of the stack for which ddtop has a description. If
// ddtop has none, and the thread cannot be interrupted, the text has the name of the innermost function.
func TestInsideOf(t *testing.T) {
	const flush = "[<0>] blk_io_schedule+0x1/0x2\n[<0>] submit_bio_wait+0x1b/0x20\n[<0>] blkdev_issue_flush.isra.0+0x55/0x70\n[<0>] ext4_sync_file+0x1/0x2\n"
	for _, c := range []struct {
		stack   string
		unknown bool
		want    string
	}{
		{flush, false, "waits for the disk to flush"},
		{"[<0>] folio_wait_writeback+0x1/0x2\n[<0>] fcntl_setlk+0x1/0x2\n", true, "waits for the disk to write"},
		{"[<0>] io_schedule+0x1/0x2\n[<0>] strange_fs_wait [strange]\n", true, "waits in the kernel's function strange_fs_wait [strange]"},
		{"[<0>] do_sys_poll+0x1/0x2\n", false, ""},
		{"", true, ""},
		{"no such thing", true, ""},
	} {
		if got := insideOf(c.stack, c.unknown); got != c.want {
			t.Errorf("%q: %q, not %q", c.stack, got, c.want)
		}
	}
}
