package value

// Env is what functions see besides their arguments.
type Env struct {
	Now        int64 // ms; the same for a whole query
	Start, End int64 // ms; the time range of the query
	// Timestamp is @timestamp of the event at hand, set by the caller before each event for which
	// a Function with UsesTimestamp is called; Null when the rows have no @timestamp any more.
	Timestamp Value
}

// Function is a scalar function of the language.
type Function struct {
	Name     string // as AWS writes it
	Min, Max int    // how many arguments it takes; Max -1: any number
	// UsesTimestamp says that it reads Env.Timestamp though no argument names it (bin).
	UsesTimestamp bool
	// Call never panics and never keeps args. len(args) is within Min and Max.
	Call func(env *Env, args []Value) Value
}

// LookupFunction finds a function by its name, in any case.
func LookupFunction(name string) (*Function, bool) { panic("unfinished") }

// FunctionNames returns the names of all functions, sorted, as AWS writes them.
func FunctionNames() []string { panic("unfinished") }
