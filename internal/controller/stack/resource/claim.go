package resource

import (
	"context"
	"errors"
	"time"
)

// claimed is what Progress has of a resource whose name is claimed.
const claimed = "claimed"

// Claim returns the handler of a table whose resources are named, and have neither tags nor a client token by which
// what an earlier call has made is recognized. name returns the physical ID that the resource of a request will have,
// and whether it contains the generated name.
//
// A resource with the generated name is this stack's: nobody else has that name. A custom name is claimed first: Create
// makes sure that it is free, and has the engine record it as the physical ID. Only the next call makes the resource:
// what bears the name after a crash is known to be its own. A table with Find has more to tell it by: somebody else may
// have taken the name after it was claimed.
func Claim[C, L any](table Table[C, L], name func(*Request) (id string, generated bool)) Handler {
	find := table.Find
	table.Find = func(ctx context.Context, client C, r *Request) (string, error) {
		id, generated := name(r)
		if !generated && r.Progress[claimed] == "" {
			return "", ErrNotFound // somebody else's, for all that is known
		}
		if find != nil {
			return find(ctx, client, r)
		}
		called := *r
		called.PhysicalID = id
		_, err := table.Describe(ctx, client, &called)
		return id, err
	}
	return claim[C, L]{Handle(table).(handler[C, L]), name}
}

type claim[C, L any] struct {
	handler[C, L]
	name func(*Request) (id string, generated bool)
}

// Create is part of Handler.
func (c claim[C, L]) Create(ctx context.Context, r *Request) (Result, error) {
	called := *r
	switch id, generated := c.name(r); {
	case r.Progress[configured] != "", generated && r.Progress[claimed] == "":
	case r.Progress[claimed] != "":
		called.PhysicalID, called.Retried = "", true
	default:
		called.PhysicalID = id
		switch _, err := c.table.Describe(ctx, c.table.Client(r.Config), &called); {
		case err == nil:
			return Result{}, Errorf(AlreadyExists, "%s already exists", id)
		case !IsNotFound(err):
			return Result{}, err
		}
		return Result{PhysicalID: id, Pending: time.Millisecond, Progress: map[string]string{claimed: "true"}}, nil
	}
	result, err := c.handler.Create(ctx, &called)
	if result.PhysicalID == "" && IsRefusal(err) {
		// Find had found nothing of the stack's: what bears the name, if anything does, is somebody else's.
		err = errors.Join(err, ErrNothingMade)
	}
	return result, err
}
