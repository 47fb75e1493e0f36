//go:build !linux

package kernel

// Moves follows no thread: it works on Linux only.
type Moves struct{}

// OpenMoves returns Moves that follow no thread.
func OpenMoves(int) *Moves { return &Moves{} }

// Close does nothing.
func (m *Moves) Close() {}

// Follows reports false.
func (m *Moves) Follows(int32) bool { return false }

// Len returns 0.
func (m *Moves) Len() int { return 0 }

// Follow fails.
func (m *Moves) Follow(int32) error { return ErrUnsupported }

// Forget does nothing.
func (m *Moves) Forget(int32) {}

// Read has nothing to tell.
func (m *Moves) Read(func(int32, *Move)) uint64 { return 0 }
