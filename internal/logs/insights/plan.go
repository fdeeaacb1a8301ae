package insights

import (
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// Options holds the inputs of a query besides its text.
type Options struct {
	Start, End int64 // the time range asked for, milliseconds since 1970 UTC, both inclusive
	Now        int64 // what now() answers, milliseconds since 1970 UTC
	Limit      int   // StartQuery's limit, 1 to 10,000; 0: none given
	Memory     int64 // bytes that all workers of a plan may hold together; 0: DefaultMemory
	// Done ends Push and Finish with ErrStopped when it is closed, also within one event; nil: nothing does.
	Done <-chan struct{}
	// References lets rows hold, where the result shows @message and nothing reads it any more, what Event.Value gives
	// for the field Plan.Reference instead. So 10,000 long messages cost no memory; who asks for it reads those of the
	// result (Result.References) himself.
	References bool
}

// Window is a time range, milliseconds since 1970 UTC, both ends inclusive.
type Window struct{ Start, End int64 }

// Plan is a query ready to run, once. It is safe for concurrent use.
type Plan struct {
	segments     []*segment
	sinkCommands []string // of segments: the command that says what the sink holds, for errors
	where        *Condition
	windows      []Window
	columns      []string
	puts         []int // of columns: index in what the last segment puts out
	reference    int   // field; -1: none
	references   []int // columns
	budget       *budget
	shared       *top // the sink of the first segment, if the workers share it
}

// Fields names what the plan reads from events; Event.Value's argument is an index of it. Names are as in the language:
// discovered fields (objectRef.name, user.groups.0), keys with dots inside unresolved, and the system fields
//
//	@timestamp, @ingestionTime  value.Time
//	@message, @logStream, @log  value.String
//	@ptr                        value.String; among events of equal @timestamp its byte order is their order in the log
//
// An event that lacks a field gives value.Null. A plan reads a field of an event when it needs it, not before, and
// once: many events are dropped after one or two reads, so make Value lazy for what is expensive (@message, @ptr).
func (p *Plan) Fields() []string { return p.segments[0].fields }

// Reference returns the index of Fields (its name there is "") for which Event.Value gives what stands for the event's
// @message in the rows: a number by which the executor finds it again. It is -1 when the rows hold their messages: with
// Options.References, when a command behind a limit or dedup reads them.
func (p *Plan) Reference() int { return p.reference }

// Where returns the condition for events that affect the result; nil when any may. It is for skipping only: the plan
// checks again itself.
func (p *Plan) Where() *Condition { return p.where }

// Windows returns the time ranges whose events the plan wants: the one of the options, and with diff the one compared
// with, which may overlap the first. An event in both is pushed once.
func (p *Plan) Windows() []Window { return p.windows }

// Event is a log event as the executor holds it.
type Event interface {
	// Value gives the field of this index of Plan.Fields. What it returns may share memory that is reused after Push
	// has returned.
	Value(field int) value.Value
}

// Worker is the part of a plan that runs in one goroutine.
type Worker struct {
	frame   *frame
	state   state
	sink    func(*frame) error
	matched int64
	passed  bool
}

// NewWorker makes a worker. Any number may run in parallel; which event goes to which, and in which order, doesn't
// change the result. Newest events first is fastest for queries that are not sorted otherwise.
func (p *Plan) NewWorker() *Worker {
	w := &Worker{frame: p.segments[0].newFrame(), state: p.newState(0)}
	w.sink = func(f *frame) error {
		w.passed = true
		err := w.state.add(f)
		f.sequence++
		return err
	}
	return w
}

func (p *Plan) newState(segment int) state {
	s := p.segments[segment]
	if s.sink != nil {
		return s.sink.newState(s, p.budget, p.sinkCommands[segment])
	}
	if segment == 0 && p.shared != nil {
		return p.shared.newTopState()
	}
	return newTopSink(s, p.budget, p.sinkCommands[segment]).newTopState()
}

// Push takes one event in one of the plan's windows. It fails when the query takes too much of something (of memory:
// the error wraps ErrMemory), and says which command it was and what to do; the worker is then of no further use.
func (w *Worker) Push(e Event) error {
	w.frame.resetRow(e)
	w.frame.sequence = 0
	w.passed = false
	err := w.frame.segment.runSteps(w.frame, 0, w.sink)
	if w.passed {
		w.matched++
	}
	return err
}

// Matched returns the number of events so far that passed the query's filters (those before a limit, dedup, stats or
// pattern).
func (w *Worker) Matched() int64 { return w.matched }

// Result is a table in its final order.
type Result struct {
	Columns []string        // in order of display. "@ptr" is the last one exactly when rows are log events.
	Rows    [][]value.Value // one value per column; Null means that the row lacks the field
	// References are the columns that hold the value of Plan.Reference, and are to show the event's @message.
	References []int
	Matched    int64 // events that passed the filters (recordsMatched)
}

// Finish merges what the workers hold and computes the result. The workers are of no further use. It fails with an
// error that wraps ErrMemory.
func (p *Plan) Finish(workers []*Worker) (*Result, error) {
	if len(workers) == 0 {
		workers = []*Worker{p.NewWorker()}
	}
	r := &Result{}
	first := workers[0].state
	for _, w := range workers {
		w.frame.texts.release()
		defer w.state.release()
	}
	for i, w := range workers {
		r.Matched += w.matched
		if i > 0 {
			if err := first.merge(w.state); err != nil {
				return nil, err
			}
		}
	}
	rows, err := first.rows()
	if err != nil {
		return nil, err
	}
	return p.finishSegments(r, rows)
}

// finishSegments runs the later segments.
func (p *Plan) finishSegments(r *Result, rows []passedRow) (*Result, error) {
	for i, s := range p.segments[1:] {
		f, st := s.newFrame(), p.newState(i+1)
		defer st.release()
		defer f.texts.release()
		add := func(f *frame) error {
			err := st.add(f)
			f.sequence++
			return err
		}
		for _, row := range rows {
			f.resetRow(row)
			if err := s.runSteps(f, 0, add); err != nil {
				return nil, err
			}
		}
		var err error
		if rows, err = st.rows(); err != nil {
			return nil, err
		}
	}
	held := account{budget: p.budget, command: "the result", advice: "ask for fewer columns, or set a lower limit"}
	defer held.release()
	repeated := p.repeatedColumns()
	for _, row := range rows {
		bytes := 24 + len(p.puts)*(value.Value{}).Bytes()
		for _, column := range repeated {
			bytes += row[p.puts[column]].Bytes()
		}
		if err := held.reserve(bytes); err != nil {
			return nil, err
		}
	}
	r.Columns, r.References = p.columns, p.references
	r.Rows = make([][]value.Value, len(rows))
	for i, row := range rows {
		r.Rows[i] = make([]value.Value, len(p.puts))
		for j, put := range p.puts {
			r.Rows[i][j] = row[put]
		}
	}
	return r, nil
}

// repeatedColumns returns the columns that show what a column before them shows. Whoever writes the result writes its
// text once more for each of them.
func (p *Plan) repeatedColumns() (columns []int) {
	shown := make(map[int]bool, len(p.puts))
	for column, put := range p.puts {
		if shown[put] {
			columns = append(columns, column)
		}
		shown[put] = true
	}
	return columns
}

// Partial returns the result of what has been pushed so far; the workers go on as they were. No Push may run meanwhile.
// It is false for queries whose workers' states can't be read before the end (stats, pattern), and where memory doesn't
// suffice for a second state.
func (p *Plan) Partial(workers []*Worker) (*Result, bool) {
	s := p.segments[0]
	if s.sink != nil || len(workers) == 0 {
		return nil, false
	}
	r, all := &Result{}, p.shared
	for _, w := range workers {
		r.Matched += w.matched
	}
	if all != nil {
		r, err := p.finishTop(r, all)
		return r, err == nil
	}
	all = newTopSink(s, p.budget, p.sinkCommands[0])
	defer all.release()
	for _, w := range workers {
		for _, row := range w.state.(*topState).heap.rows {
			own := *row
			if err := all.offerRow(&own); err != nil {
				return nil, false
			}
		}
	}
	r, err := p.finishTop(r, all)
	return r, err == nil
}

func (p *Plan) finishTop(r *Result, t *top) (*Result, error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	return p.finishSegments(r, rows)
}
