package policy

import (
	"context"
	"errors"
	"fmt"
)

// MaxValue is the length in bytes of the longest value that policies are compared with: a condition key's, or the ARN
// of a resource. Clients choose some of them, such as aws:UserAgent. A longer value refuses the request if a policy
// compares it: a shortened one might escape a Deny.
const MaxValue = 2048

// ErrBudget is the [Decision.Err] of an evaluation that takes more steps than its Budget has.
var ErrBudget = errors.New("evaluating the policies takes too much work")

// TooLongError reports that a value is longer than MaxValue.
type TooLongError struct {
	Key    string // the condition key; empty for the resource
	Length int    // in bytes
}

func (e *TooLongError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("the resource has %d bytes, and policies are compared with at most %d", e.Length, MaxValue)
	}
	return fmt.Sprintf(
		"a value of the condition key %s has %d bytes, and policies are compared with at most %d: send a shorter one",
		e.Key, e.Length, MaxValue,
	)
}

// UnreadError reports that a Deny depends on a condition key whose value is not known. See [Request.Unread].
type UnreadError struct{ Key string }

func (e *UnreadError) Error() string {
	return fmt.Sprintf("a statement denies it by the condition key %s, whose value is not known here", e.Key)
}

// Budget bounds the work of the evaluations that share it, by a context and by steps. A step is about a byte that is
// compared. It is not safe for concurrent use.
type Budget struct {
	ctx  context.Context
	left int
	due  int // steps until the context is checked again
}

// NewBudget returns a budget of steps, which is spent when ctx is done.
func NewBudget(ctx context.Context, steps int) *Budget { return &Budget{ctx: ctx, left: steps} }

const (
	// stepsPerCheck is the number of steps between two checks of the context: some microseconds.
	stepsPerCheck = 1 << 14
	// statementSteps is the number of steps of a statement beside its patterns.
	statementSteps = 32
	// valueSteps is the number of steps of a value of a condition, or of the request, beside its bytes.
	valueSteps = 32
	// numberSteps is the number of steps of a comparison with a number, parseSteps that of parsing a number, or a date,
	// of the request.
	numberSteps, parseSteps = 512, 2048
)

func (b *Budget) consume(steps int) error {
	if b.left -= steps; b.left < 0 {
		return ErrBudget
	}
	if b.due -= steps; b.due > 0 {
		return nil
	}
	if err := context.Cause(b.ctx); err != nil {
		return err
	}
	b.due = stepsPerCheck
	return nil
}

// evaluation is the state and budget of patterns and conditions while a request is evaluated. Once it has failed
// nothing matches, and earlier results do not count.
type evaluation struct {
	keys   Keys
	unread func(key string) bool // as in Request
	budget *Budget
	err    error
	// variable is the condition key of a variable that was not replaced because its value is not known.
	variable string
}

// tryConsume reports whether the evaluation goes on.
func (e *evaluation) tryConsume(steps int) bool {
	if e.err == nil && e.budget != nil {
		e.err = e.budget.consume(steps)
	}
	return e.err == nil
}

// canCompare reports whether a value is short enough to compare.
func (e *evaluation) canCompare(key, value string) bool {
	if len(value) > MaxValue && e.err == nil {
		e.err = &TooLongError{Key: key, Length: len(value)}
	}
	return e.err == nil
}

// isUnread reports whether the value of a condition key is not known.
func (e *evaluation) isUnread(key string) bool {
	if e.unread == nil || !e.unread(key) {
		return false
	}
	_, known := e.lookupKey(key)
	return !known
}

// takeVariable returns the condition key of a variable that was not known, and forgets it.
func (e *evaluation) takeVariable() (key string) {
	key, e.variable = e.variable, ""
	return key
}

func (e *evaluation) lookupKey(key string) ([]string, bool) {
	if e.keys == nil || !e.tryConsume(countKeys(e.keys)) {
		return nil, false
	}
	return e.keys.Lookup(key)
}

// countKeys returns the maximum number of keys that a lookup compares.
func countKeys(keys Keys) (n int) {
	switch keys := keys.(type) {
	case Context:
		return len(keys)
	case Layers:
		for _, layer := range keys {
			n += countKeys(layer)
		}
	}
	return n
}
