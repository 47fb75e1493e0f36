package bpf

import "errors"

// Why a program cannot be loaded. Each error that is one of them says what was tried and what mends it.
var (
	// ErrKernel: the kernel is too old, was built without what is needed, or is locked down.
	ErrKernel = errors.New("this kernel cannot run ddtop's programs")
	// ErrRights: ddtop lacks the rights to load programs.
	ErrRights = errors.New("no permission to load programs into the kernel")
)
