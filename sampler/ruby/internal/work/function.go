package work

import "github.com/ddtop/ddtop/attach"

// askFunctions are C functions of client libraries that get a statement as an argument. The key is the function's
// label. The value is the index of the argument that is the statement. Versions of a gem can use different names. If a
// function has aliases, it is listed under the name in its definition. Read-only.
var askFunctions = map[string]int{
	"PG::Connection#exec": 0, "PG::Connection#async_exec": 0, "PG::Connection#sync_exec": 0,
	"PG::Connection#query": 0, "PG::Connection#async_query": 0,
	"PG::Connection#exec_params": 0, "PG::Connection#async_exec_params": 0, "PG::Connection#sync_exec_params": 0,
	"PG::Connection#send_query": 0, "PG::Connection#send_query_params": 0,
	"PG::Connection#prepare": 1, "PG::Connection#async_prepare": 1, "PG::Connection#sync_prepare": 1, "PG::Connection#send_prepare": 1,
	"Mysql2::Client#_query": 0, "Mysql2::Client#prepare": 0,
	"Trilogy#query":                0,
	"SQLite3::Database#exec_batch": 0, "SQLite3::Database#execute_batch2": 0,
	"SQLite3::Statement#initialize": 1, "SQLite3::Statement#prepare": 1,
	"TinyTds::Client#execute": 0,
}

// function returns how to read the statement that the innermost frame got as an argument. The field ask of the result
// is nil if this frame is not in askFunctions.
func (f *statements) function(fr *Frames) asking {
	function, caller := fr.Raw[:fr.Size], fr.Raw[fr.Size:2*fr.Size]
	at, n, ok := f.code.Arguments(function, caller)
	if !ok || n == 0 {
		return asking{}
	}
	_, id := f.dict.Stack(fr.Stack)
	frame := f.dict.Frame(id)
	i, ok := askFunctions[frame.Label]
	if !ok || !frame.C || i >= n {
		return asking{}
	}
	return asking{at: at + attach.Address(8*i), self: selfOf(function), ask: func(f *statements, self uint64, arg attach.Address) string {
		if f.word(at-8) != self || f.failed != nil { // the receiver is in front of the arguments
			return ""
		}
		return f.askSQL(self, arg)
	}}
}
