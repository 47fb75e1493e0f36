module github.com/ddtop/ddtop/internal/rivals

go 1.26.8

require (
	github.com/cilium/ebpf v0.22.0
	github.com/creack/pty v1.1.24
	github.com/ddtop/ddtop v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	golang.org/x/arch v0.32.0 // indirect
)

replace github.com/ddtop/ddtop => ../..
