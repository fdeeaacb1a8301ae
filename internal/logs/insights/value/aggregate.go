package value

// Aggregate is a function of the `stats` command.
type Aggregate struct {
	Name      string // as AWS writes it
	Min, Max  int    // how many arguments it takes; count() and count(*) have none
	Constants []int  // indexes of the arguments that must be constants (pct's percentage)
	// Check says what is wrong with the constants (in the order of Constants), or returns nil.
	Check func(consts []Value) error
	// New makes an accumulator for one group; consts have passed Check.
	New func(consts []Value) Accumulator
}

// Accumulator computes one aggregate of one group. Partial accumulators of the same aggregate and
// constants merge; the result does not depend on how the rows were divided or ordered, except
// where an aggregate says that it is an approximation.
type Accumulator interface {
	// Add takes the values of all arguments (constants too) for one row, and the row's @timestamp (ms; 0 if it has none). It keeps neither args nor their text.
	Add(args []Value, timestamp int64)
	// Merge takes over what other has seen; other must not be used afterwards.
	Merge(other Accumulator)
	// Result is the value so far; it may be called at any time, and Add may follow.
	Result() Value
	// Bytes is the memory held, in bytes.
	Bytes() int
}

// LookupAggregate finds an aggregate by its name, in any case.
func LookupAggregate(name string) (*Aggregate, bool) { panic("unfinished") }

// AggregateNames returns the names of all aggregates, sorted, as AWS writes them.
func AggregateNames() []string { panic("unfinished") }
