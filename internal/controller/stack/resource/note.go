package resource

import (
	"context"
	"errors"
	"time"
)

// noted is what Progress has of the resource that was there before the creation: its physical ID, empty for none.
const noted = "noted"

// Note returns the handler of a table whose resources have neither tags nor a client token nor a name by which what an
// earlier call has made is recognized: Find returns what is as the request has it, whoever made it. Create notes first
// what that is, and has the engine record it. What is found later is the stack's unless it was noted.
func Note[C, L any](table Table[C, L]) Handler {
	find := table.Find
	table.Find = func(ctx context.Context, client C, r *Request) (string, error) {
		before, known := Noted(r)
		if !known {
			return "", ErrNotFound // somebody else's, for all that is known
		}
		id, err := find(ctx, client, r)
		if err == nil && id == before {
			return "", ErrNotFound
		}
		return id, err
	}
	return note[C, L]{Handle(table).(handler[C, L]), find}
}

// Noted returns what was noted before the creation, and whether anything was.
func Noted(r *Request) (before string, known bool) {
	if before, known = r.Progress[noted]; !known {
		before, known = r.Creation[noted]
	}
	return before, known
}

type note[C, L any] struct {
	handler[C, L]
	find Creation[C]
}

// Create is part of Handler.
func (n note[C, L]) Create(ctx context.Context, r *Request) (Result, error) {
	if _, known := r.Progress[noted]; !known && r.PhysicalID == "" {
		before, err := n.find(ctx, n.table.Client(r.Config), r)
		if err != nil && !IsNotFound(err) {
			return Result{}, err
		}
		return Result{Pending: time.Millisecond, Progress: map[string]string{noted: before}}, nil
	}
	called := *r
	called.Retried = true
	result, err := n.handler.Create(ctx, &called)
	if result.PhysicalID == "" && IsRefusal(err) {
		err = errors.Join(err, ErrNothingMade) // Find had found nothing of the stack's
	}
	return result, err
}
