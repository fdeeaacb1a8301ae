package proof

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// streamed is the stream that a handler of the rig sends after its output.
type streamed struct {
	out    any
	events iter.Seq2[any, error]
}

// unionOf is the SDK's union of an operation's events, by the client's type of its output.
func unionOf(out reflect.Type) reflect.Type {
	get, _ := out.MethodByName("GetStream")
	events, _ := get.Type.Out(0).MethodByName("Events")
	return events.Type.Out(0).Elem()
}

// streamHandler makes the method of an operation that answers with events. Until a test has an answer for it, it sends
// nothing but an empty output.
func (r *rig) streamHandler(key string, call reflect.Type) any {
	union, fault := unionOf(call.Out(0)), reflect.TypeFor[error]()
	yield := reflect.FuncOf([]reflect.Type{union, fault}, []reflect.Type{reflect.TypeFor[bool]()}, false)
	seq := reflect.FuncOf([]reflect.Type{yield}, nil, false)
	handler := reflect.FuncOf([]reflect.Type{call.In(0), call.In(1)}, []reflect.Type{call.Out(0), seq, fault}, false)
	return reflect.MakeFunc(handler, func(args []reflect.Value) []reflect.Value {
		s := streamed{out: reflect.New(call.Out(0).Elem()).Interface()}
		if answer, ok := r.answers.Load(key); ok {
			got, err := answer.(func(any) (any, error))(args[1].Interface())
			if err != nil {
				return []reflect.Value{reflect.Zero(call.Out(0)), reflect.Zero(seq), reflect.ValueOf(&err).Elem()}
			}
			var ok bool
			if s, ok = got.(streamed); !ok {
				s.out = got
			}
		}
		events := reflect.MakeFunc(seq, func(to []reflect.Value) []reflect.Value {
			if s.events == nil {
				return nil
			}
			for e, err := range s.events {
				event := reflect.Zero(union)
				if e != nil {
					event = reflect.ValueOf(e)
				}
				if !to[0].Call([]reflect.Value{event, reflect.ValueOf(&err).Elem()})[0].Bool() {
					break
				}
			}
			return nil
		})
		return []reflect.Value{reflect.ValueOf(s.out), events, reflect.Zero(fault)}
	}).Interface()
}

// received reads a stream of the client to its end.
func received(out any) (events []any, err error) {
	stream := reflect.ValueOf(out).MethodByName("GetStream").Call(nil)[0]
	channel := stream.MethodByName("Events").Call(nil)[0]
	for {
		e, ok := channel.Recv()
		if !ok {
			break
		}
		events = append(events, e.Interface())
	}
	if e := stream.MethodByName("Close").Call(nil)[0]; !e.IsNil() {
		return events, e.Interface().(error)
	}
	return events, nil
}

func (r *rig) streams(t *testing.T) []wire.Operation {
	var ops []wire.Operation
	for _, op := range r.mux.Operations() {
		if op.EventStream {
			ops = append(ops, op)
		}
	}
	if len(ops) == 0 {
		t.Fatal("no operation answers with a stream")
	}
	return ops
}

// Each event of each stream travels unchanged.
func TestEvents(t *testing.T) {
	r := theRig()
	for _, op := range r.streams(t) {
		_, out := r.types(op)
		var want []any
		for name, member := range model.Variants(unionOf(reflect.PointerTo(out))) {
			for round := range 3 {
				e := reflect.New(member)
				newFiller(fmt.Sprintf("%d %s", round, name)).fill(e.Elem())
				want = append(want, e.Interface())
			}
		}
		r.answers.Store(op.Service.Name+"."+op.Name, func(any) (any, error) {
			return streamed{reflect.New(out).Interface(), func(yield func(any, error) bool) {
				for _, e := range want {
					if !yield(e, nil) {
						return
					}
				}
			}}, nil
		})
		answer, err := r.call(t.Context(), op, op.MinimalInput())
		if err != nil {
			t.Errorf("%s: %v", op.Name, err)
			continue
		}
		got, err := received(answer)
		if d := cmp.Diff(want, got, exported); d != "" || err != nil {
			t.Errorf("%s: %v (-sent +received):\n%.3000s", op.Name, err, d)
		}
		fmt.Printf("%-24s %s: %d events\n", op.Service.Name, op.Name, len(got))
	}
}

// An error among the events arrives as the exception that it is, whether the stream's model has it or not.
func TestStreamErrors(t *testing.T) {
	r := theRig()
	for _, op := range r.streams(t) {
		_, out := r.types(op)
		send := func(fault error) error {
			r.answers.Store(op.Service.Name+"."+op.Name, func(any) (any, error) {
				return streamed{reflect.New(out).Interface(), func(yield func(any, error) bool) {
					if yield(nil, fault) {
						t.Errorf("%s goes on behind an error", op.Name)
					}
				}}, nil
			})
			answer, err := r.call(t.Context(), op, op.MinimalInput())
			if err != nil {
				t.Errorf("%s: %v", op.Name, err)
				return nil
			}
			events, err := received(answer)
			if len(events) > 0 {
				t.Errorf("%s: %d events before the error", op.Name, len(events))
			}
			return err
		}
		var arrived []string
		for _, e := range modelledErrors {
			if e.service != op.Service.Name {
				continue
			}
			want := reflect.New(e.typ)
			newFiller(e.typ.Name()).fill(want.Elem())
			err := send(want.Interface().(error))
			got := reflect.New(want.Type())
			var api smithy.APIError
			switch {
			case errors.As(err, got.Interface()):
				arrived = append(arrived, e.typ.Name())
				if d := cmp.Diff(want.Interface(), got.Elem().Interface(), exported); d != "" {
					t.Errorf("%s: %s (-sent +received):\n%s", op.Name, e.typ.Name(), d)
				}
			case !errors.As(err, &api) || api.ErrorCode() != e.typ.Name() ||
				api.ErrorMessage() != want.Interface().(smithy.APIError).ErrorMessage():
				t.Errorf("%s: %s arrives as %v", op.Name, e.typ.Name(), err)
			}
		}
		if len(arrived) == 0 || !slices.ContainsFunc(arrived, func(name string) bool {
			return name == "SessionTimeoutException" || name == "InternalStreamingException"
		}) {
			t.Errorf("%s: only %v arrive as themselves", op.Name, arrived)
		}
		var api smithy.APIError
		if err := send(errors.New("secret")); !errors.As(err, &api) || api.ErrorCode() != "InternalFailure" {
			t.Errorf("%s: an internal error arrives as %v", op.Name, err)
		}
		if err := send(nil); !errors.As(err, &api) || api.ErrorCode() != "InternalFailure" {
			t.Errorf("%s: neither event nor error arrives as %v", op.Name, err)
		}
		fmt.Printf("%-24s %s: %d exceptions\n", op.Service.Name, op.Name, len(arrived))
	}
}
