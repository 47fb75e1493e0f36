package sampler

// Origin says where a frame's code comes from. Recordings keep its numbers: they never change.
type Origin uint8

const (
	// OriginUnknown: nobody has told. Frames of a recording made before origins were kept have it.
	OriginUnknown Origin = iota
	// OriginApp is the program itself: what is nothing of the others.
	OriginApp
	// OriginGem is code of a gem; Frame.Gem says of which.
	OriginGem
	// OriginStdlib is Ruby's standard library, RubyGems and Bundler included.
	OriginStdlib
	// OriginCore is a C function, of Ruby or of an extension, or Ruby's own code in Ruby (<internal:…>).
	OriginCore
	// OriginEval is code that was made at run time and names no file.
	OriginEval
	// NumOrigins is the number of origins.
	NumOrigins
)

// String returns the word of dumps and legends: app, gem, stdlib, core, eval; unknown.
func (o Origin) String() string {
	switch o {
	case OriginApp:
		return "app"
	case OriginGem:
		return "gem"
	case OriginStdlib:
		return "stdlib"
	case OriginCore:
		return "core"
	case OriginEval:
		return "eval"
	}
	return "unknown"
}
