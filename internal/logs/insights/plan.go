package insights

import (
	"errors"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// Options is what a query depends on besides its text.
type Options struct {
	Start, End int64 // the time range asked for, milliseconds since 1970 UTC, both inclusive
	Now        int64 // what now() answers, milliseconds since 1970 UTC
	Limit      int   // StartQuery's limit, 1 to 10,000; 0: none given
	Memory     int64 // bytes that all workers of a plan may hold together; 0: 128 MiB
}

// DefaultMemory is what the workers of a plan may hold together unless Options.Memory says otherwise, in bytes.
const DefaultMemory = 128 << 20

// ErrMemory is what the errors of Push and Finish wrap when a query would hold more than Options.Memory. Their text says which
// command holds it and what to do.
var ErrMemory = errors.New("the query holds too much")

// Window is a time range, milliseconds since 1970 UTC, both ends inclusive.
type Window struct{ Start, End int64 }

// Plan is a query ready to run. It is immutable and safe for concurrent use.
type Plan struct{}

// Compile checks what a parsed query means and makes a plan for it. Its error is a *SyntaxError.
func Compile(q *Query, o Options) (*Plan, error) { return &Plan{}, nil }

// Fields names what the plan reads from events; Event.Value's argument is an index of it. Names are as in the language: discovered
// fields (objectRef.name, user.groups.0), keys with dots inside unresolved, and the system fields
//
//	@timestamp, @ingestionTime  value.Time, milliseconds since 1970 UTC
//	@message, @logStream, @log  value.String
//	@ptr                        value.String; among events of equal @timestamp its byte order is their order in the log
//
// An event that lacks a field gives value.Null. A plan reads a field of an event when it needs it, not before: many
// events are dropped after one or two reads, so make Value lazy for what is expensive (@message, @ptr).
func (p *Plan) Fields() []string { return nil }

// Where is what an event must satisfy to matter; nil when any may. It is for skipping only: the plan checks again itself.
func (p *Plan) Where() *Condition { return nil }

// Condition is a tree in negation normal form: exactly one of All, Any and Test is set.
type Condition struct {
	All, Any []*Condition
	Field    int                    // a leaf's field, an index of Plan.Fields
	Test     func(value.Value) bool // a leaf: whether a value of the field passes; pure, safe for concurrent use. It is called with value.Null for absent fields.
	Words    []string               // a leaf: whole words, in the sense of package word, of the raw message of any event that passes it
}

// Windows are the time ranges whose events the plan wants: one, or with diff two, which may overlap. An event in both is pushed once.
func (p *Plan) Windows() []Window { return nil }

// Event is a log event as the executor holds it.
type Event interface {
	// Value gives the field of this index of Plan.Fields. What it returns may share memory that is reused after Push has returned.
	Value(field int) value.Value
}

// Worker is the part of a plan that runs in one goroutine.
type Worker struct{}

// NewWorker makes a worker. Any number may run in parallel; which event goes to which, and in which order, doesn't change the result.
func (p *Plan) NewWorker() *Worker { return &Worker{} }

// Push takes one event in one of the plan's windows. It fails with an error that wraps ErrMemory; the worker is then of no further use.
func (w *Worker) Push(e Event) error { return nil }

// Matched is the number of events so far that passed the query's filters.
func (w *Worker) Matched() int64 { return 0 }

// Finish merges what the workers hold and computes the result. The workers are of no further use.
func (p *Plan) Finish(workers []*Worker) (*Result, error) { return &Result{}, nil }

// Partial is the result of what has been pushed so far; the workers go on as they were. No Push may run meanwhile. It takes up to as much
// memory again as the workers hold; where that would exceed Options.Memory it fails with ErrMemory, and the query goes on.
func (p *Plan) Partial(workers []*Worker) (*Result, error) { return &Result{}, nil }

// Result is a table in its final order.
type Result struct {
	Columns []string        // in order of display. "@ptr" is the last one exactly when rows are log events.
	Rows    [][]value.Value // one value per column; Null means that the row lacks the field.
	Matched int64           // events that passed the filters (recordsMatched)
}
