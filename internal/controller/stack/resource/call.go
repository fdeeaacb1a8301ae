package resource

import (
	"context"
	"maps"
	"reflect"
	"slices"
)

// Operation is an operation of a service, as a method expression of the SDK: (*ec2.Client).CreateVpc.
type Operation[C, In, Out, O any] = func(C, context.Context, *In, ...func(*O)) (*Out, error)

// Creation makes a resource and returns its physical ID.
type Creation[C any] = func(ctx context.Context, client C, r *Request) (id string, err error)

// Create returns a Creation of an operation. Its input has the properties of the resource by their names (see Decode),
// and the client token where the operation takes one; prepare then completes it. A property must be a member of the
// input, named in members (as Left if prepare or nobody takes it), or set by a step of the table; any other is refused,
// rather than lost.
func Create[C, In, Out, O any](operation Operation[C, In, Out, O], members Members, id func(*Out) *string,
	prepare ...func(*Request, *In) error) Creation[C] {
	return func(ctx context.Context, client C, r *Request) (string, error) {
		if err := checkMembers[In](r, members); err != nil {
			return "", err
		}
		out, err := Call(ctx, client, r, operation, members, prepare...)
		if err != nil {
			return "", err
		}
		if got := id(out); got != nil {
			return *got, nil
		}
		return "", Errorf(ServiceInternalError, "the service returned no identifier of the resource")
	}
}

// checkMembers refuses properties that nobody would take.
func checkMembers[In any](r *Request, members Members) error {
	for _, name := range slices.Sorted(maps.Keys(r.Properties)) {
		_, mapped := members[name]
		_, member := fieldOf(reflect.TypeFor[In](), name)
		if !mapped && !member && !slices.Contains(r.stepped, name) {
			return Errorf(InvalidRequest, "property %s is not supported by coracle", name)
		}
	}
	return nil
}

// Call calls an operation with the properties of the resource, as Create does.
func Call[C, In, Out, O any](ctx context.Context, client C, r *Request, operation Operation[C, In, Out, O],
	members Members, prepare ...func(*Request, *In) error) (*Out, error) {
	in := new(In)
	if err := Decode(r.Properties, in, members); err != nil {
		return nil, err
	}
	setToken(in, r.Token)
	for _, complete := range prepare {
		if err := complete(r, in); err != nil {
			return nil, err
		}
	}
	return operation(client, ctx, in)
}

// tokenMembers are the names under which operations take client tokens.
var tokenMembers = []string{"ClientToken", "ClientRequestToken"}

// setToken sets the client token of an input that has one.
func setToken(in any, token string) {
	if token == "" {
		return
	}
	for _, name := range tokenMembers {
		field := reflect.ValueOf(in).Elem().FieldByName(name)
		if field.IsValid() && field.Type() == reflect.TypeFor[*string]() && field.IsNil() {
			field.Set(reflect.ValueOf(&token))
		}
	}
}
