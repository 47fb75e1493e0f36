package bpf

import "errors"

// These are reasons why a program cannot be loaded. An error that wraps one of them says what ddtop tried and what the
// user can do.
var (
	// ErrKernel means that the kernel is too old, was built without a needed option, or is locked down.
	ErrKernel = errors.New("this kernel cannot run ddtop's programs")
	// ErrRights means that ddtop lacks the rights to load programs.
	ErrRights = errors.New("no permission to load programs into the kernel")
)
