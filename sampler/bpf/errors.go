package bpf

import "errors"

// Reasons why a program cannot be loaded. An error that wraps one of them names what was tried and what helps.
var (
	// ErrKernel means that the kernel is too old, was built without a needed option, or is locked down.
	ErrKernel = errors.New("this kernel cannot run ddtop's programs")
	// ErrRights means that ddtop lacks the rights to load programs.
	ErrRights = errors.New("no permission to load programs into the kernel")
)
