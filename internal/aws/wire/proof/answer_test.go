package proof

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// Each operation's output travels unchanged, several times with other values.
func TestAnswers(t *testing.T) {
	r := theRig()
	const rounds = 3
	r.each(t, "answers", func(t *testing.T, op wire.Operation) error {
		_, out := r.types(op)
		for round := range rounds {
			want := reflect.New(out)
			newFiller(fmt.Sprintf("%d %s", round, op.Name)).fill(want.Elem())
			r.answers.Store(op.Service.Name+"."+op.Name, func(any) (any, error) { return want.Interface(), nil })
			got, err := r.call(t.Context(), op, op.MinimalInput())
			if err != nil {
				return err
			}
			if d := cmp.Diff(want.Interface(), got, exported); d != "" {
				return fmt.Errorf("(-sent +received):\n%.3000s", d)
			}
		}
		return nil
	})
}

// Each modeled error comes out of the client as what the handler returned.
func TestModelledErrors(t *testing.T) {
	r := theRig()
	passed, total := map[string]int{}, map[string]int{}
	var order []string
	for _, e := range modelledErrors {
		if total[e.service] == 0 {
			order = append(order, e.service)
		}
		total[e.service]++
		want := reflect.New(e.typ)
		newFiller(e.typ.Name()).fill(want.Elem())
		if known, _ := model.Load(e.service).Error(e.typ.Name()); known.Schema.Member("message") == nil &&
			known.Schema.Member("Message") == nil {
			want.Elem().FieldByName("Message").SetZero() // has no message in the model, and the SDK reads none
		}
		op := r.ops[e.service+"."+e.operation]
		r.answers.Store(e.service+"."+e.operation, func(any) (any, error) { return nil, want.Interface().(error) })
		_, err := r.call(t.Context(), op, op.MinimalInput())
		got := reflect.New(want.Type())
		if !errors.As(err, got.Interface()) {
			t.Errorf("%s: %s arrives as %T: %v", e.service, e.typ.Name(), errors.Unwrap(errors.Unwrap(err)), err)
			continue
		}
		if d := cmp.Diff(want.Interface(), got.Elem().Interface(), exported); d != "" {
			t.Errorf("%s: %s (-sent +received):\n%s", e.service, e.typ.Name(), d)
			continue
		}
		passed[e.service]++
	}
	for _, s := range order {
		fmt.Printf("%-24s errors: %d of %d\n", s, passed[s], total[s])
	}
}

// An error that no model knows keeps its code and message in every protocol.
func TestOtherErrors(t *testing.T) {
	r := theRig()
	for _, name := range []string{"eks.ListClusters", "kms.ListKeys", "sqs.ListQueues", "iam.ListUsers",
		"ec2.DescribeVpcs"} {
		op := r.ops[name]
		want := wire.Errorf("InvalidThing.NotFound", "The thing <'%s'> & more does not exist", name)
		r.answers.Store(name, func(any) (any, error) { return nil, want })
		_, err := r.call(t.Context(), op, op.MinimalInput())
		var got smithy.APIError
		if !errors.As(err, &got) || got.ErrorCode() != want.Code || got.ErrorMessage() != want.Message {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}
