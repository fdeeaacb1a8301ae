package resource_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// bay is a service with one kind of resource.
type bay struct {
	calls []string
	boats map[string]string // state by ID
	fail  error             // of the next step
}

func (b *bay) table() resource.Table[*bay, string] {
	return resource.Table[*bay, string]{
		Client: func(aws.Config) *bay { return b },
		Create: func(_ context.Context, b *bay, r *resource.Request) (string, error) {
			b.calls = append(b.calls, "create")
			b.boats["boat-1"] = "building"
			return "boat-1", nil
		},
		Find: func(_ context.Context, b *bay, _ *resource.Request) (string, error) {
			b.calls = append(b.calls, "find")
			for id := range b.boats {
				return id, nil
			}
			return "", resource.ErrNotFound
		},
		Describe: func(_ context.Context, b *bay, r *resource.Request) (*string, error) {
			state, ok := b.boats[r.PhysicalID]
			if !ok {
				return nil, resource.ErrNotFound
			}
			return &state, nil
		},
		State: func(live *string) (resource.State, error) {
			switch *live {
			case "afloat":
				return resource.Ready, nil
			case "sinking":
				return resource.Deleting, nil
			case "leaking":
				return resource.Creating, resource.Errorf(resource.NotStabilized, "it leaks")
			}
			return resource.Creating, nil
		},
		Configure: []resource.Step[*bay]{
			{Properties: []string{"Color"}, Run: func(_ context.Context, b *bay, r *resource.Request) error {
				b.calls = append(b.calls, "paint "+r.PhysicalID)
				return b.fail
			}},
			{Properties: []string{"Sail"}, Update: true, Run: func(context.Context, *bay, *resource.Request) error {
				b.calls = append(b.calls, "reef")
				return nil
			}},
			{Properties: []string{"Tags"}, Tags: true, Run: func(context.Context, *bay, *resource.Request) error {
				b.calls = append(b.calls, "tag")
				return nil
			}},
		},
		Replace: []string{"Hull"},
		Delete: func(_ context.Context, b *bay, r *resource.Request) error {
			b.calls = append(b.calls, "delete")
			if _, ok := b.boats[r.PhysicalID]; !ok {
				return resource.ErrNotFound
			}
			b.boats[r.PhysicalID] = "sinking"
			return nil
		},
		Slow:       true,
		Attributes: func(_ *resource.Request, live *string) map[string]any { return map[string]any{"State": *live} },
		Properties: func(context.Context, *bay, *resource.Request, *string) (map[string]any, error) {
			return map[string]any{"Color": "red"}, nil
		},
	}
}

func (b *bay) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(b.calls, want) {
		t.Errorf("calls %v, want %v", b.calls, want)
	}
	b.calls = nil
}

func newBay() (*bay, resource.Handler) {
	b := &bay{boats: map[string]string{}}
	return b, resource.Handle(b.table())
}

func TestCreateRunsUntilTheResourceIsStable(t *testing.T) {
	t.Parallel()
	b, h := newBay()
	r := &resource.Request{Properties: map[string]any{"Color": "red", "Sail": "1", "Tags": []any{}}}
	result, err := h.Create(t.Context(), r)
	if err != nil || result.PhysicalID != "boat-1" || result.Pending != time.Second {
		t.Fatalf("got %+v, %v", result, err)
	}
	b.wantCalls(t, "create", "paint boat-1")
	b.boats["boat-1"] = "afloat"
	r.PhysicalID, r.Progress = result.PhysicalID, result.Progress
	result, err = h.Create(t.Context(), r)
	if err != nil || result.Pending != 0 || !cmp.Equal(result.Attributes, map[string]any{"State": "afloat"}) {
		t.Fatalf("got %+v, %v", result, err)
	}
	b.wantCalls(t)
}

func TestCreateWhoseAnswerWasLostMakesNothingTwice(t *testing.T) {
	t.Parallel()
	b, h := newBay()
	b.fail = errors.New("no paint")
	r := &resource.Request{Properties: map[string]any{"Color": "red"}}
	if result, err := h.Create(t.Context(), r); !errors.Is(err, b.fail) || result.PhysicalID != "boat-1" {
		t.Fatalf("got %+v, %v: what has been made must be named", result, err)
	}
	b.wantCalls(t, "create", "paint boat-1")
	b.fail, r.Retried = nil, true
	if _, err := h.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.wantCalls(t, "find", "paint boat-1")
}

// What could not be read may be somebody else's: it does not become the stack's, which would delete it.
func TestCreateDoesNotNameWhatItCouldNotFind(t *testing.T) {
	t.Parallel()
	for _, code := range []resource.ErrorCode{resource.AccessDenied, resource.Throttling} {
		b := &bay{boats: map[string]string{"boat-1": "afloat"}}
		table := b.table()
		table.Find = func(context.Context, *bay, *resource.Request) (string, error) {
			return "boat-1", resource.Errorf(code, "no")
		}
		result, err := resource.Handle(table).Create(t.Context(), &resource.Request{Retried: true})
		if resource.Classify(err) != code || result.PhysicalID != "" {
			t.Errorf("got %+v, %v, want %s of no resource", result, err, code)
		}
		b.wantCalls(t)
	}
}

func TestCreateFailsWhenTheResourceDoes(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]resource.ErrorCode{
		"leaking": resource.NotStabilized, "sinking": resource.NotStabilized, "": resource.NotFound,
	} {
		b, h := newBay()
		if state != "" {
			b.boats["boat-1"] = state
		}
		result, err := h.Create(t.Context(), &resource.Request{PhysicalID: "boat-1"})
		if resource.Classify(err) != want || result.PhysicalID != "boat-1" {
			t.Errorf("%q: got %+v, %v, want %s", state, result, err, want)
		}
	}
}

func TestUpdateRunsTheStepsOfWhatChanged(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		old, next map[string]any
		tags      map[string]string
		calls     []string
		code      resource.ErrorCode
	}{
		{"nothing", map[string]any{"Color": true}, map[string]any{"Color": "true"}, nil, nil, ""},
		{"in place", map[string]any{"Color": "red"}, map[string]any{"Color": "blue", "Sail": "2"}, nil,
			[]string{"paint boat-1", "reef"}, ""},
		{"tags of the stack", nil, nil, map[string]string{"a": "b"}, []string{"tag"}, ""},
		{"replacement", map[string]any{"Color": "red"}, map[string]any{"Hull": "oak"}, nil, nil, resource.NotUpdatable},
		{"what no step sets", map[string]any{"Mast": "1"}, map[string]any{"Color": "red"}, nil, nil,
			resource.NotUpdatable},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, h := newBay()
			b.boats["boat-1"] = "afloat"
			_, err := h.Update(t.Context(), &resource.Request{PhysicalID: "boat-1", Previous: row.old,
				Properties: row.next, Tags: row.tags})
			if row.code == "" && err != nil || row.code != "" && resource.Classify(err) != row.code {
				t.Errorf("got %v, want %q", err, row.code)
			}
			b.wantCalls(t, row.calls...)
		})
	}
}

func TestDeleteEndsWhenTheResourceIsGone(t *testing.T) {
	t.Parallel()
	b, h := newBay()
	b.boats["boat-1"] = "afloat"
	r := &resource.Request{PhysicalID: "boat-1"}
	result, err := h.Delete(t.Context(), r)
	if err != nil || result.Pending == 0 {
		t.Fatalf("got %+v, %v", result, err)
	}
	b.wantCalls(t, "delete")
	for _, again := range []*resource.Request{
		{PhysicalID: "boat-1", Progress: result.Progress}, {PhysicalID: "boat-1", Retried: true},
	} {
		if result, err = h.Delete(t.Context(), again); err != nil || result.Pending == 0 {
			t.Fatalf("got %+v, %v", result, err)
		}
		b.wantCalls(t)
	}
	delete(b.boats, "boat-1")
	if result, err = h.Delete(t.Context(), r); err != nil || result.Pending != 0 {
		t.Fatalf("got %+v, %v", result, err)
	}
}

func TestDeleteRemovesWhatALostAnswerNamed(t *testing.T) {
	t.Parallel()
	b, h := newBay()
	if result, err := h.Delete(t.Context(), &resource.Request{}); err != nil || result.Pending != 0 {
		t.Fatalf("got %+v, %v", result, err)
	}
	b.wantCalls(t, "find")
	b.boats["boat-1"] = "afloat"
	if result, err := h.Delete(t.Context(), &resource.Request{}); err != nil || result.PhysicalID != "boat-1" {
		t.Fatalf("got %+v, %v", result, err)
	}
	b.wantCalls(t, "find", "delete")
}

func TestReadTellsWhatIsThere(t *testing.T) {
	t.Parallel()
	b, h := newBay()
	if _, _, err := h.Read(t.Context(), &resource.Request{PhysicalID: "boat-1"}); !errors.Is(err, resource.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	b.boats["boat-1"] = "afloat"
	properties, attributes, err := h.Read(t.Context(), &resource.Request{PhysicalID: "boat-1"})
	if err != nil || !cmp.Equal(properties, map[string]any{"Color": "red"}) ||
		!cmp.Equal(attributes, map[string]any{"State": "afloat"}) {
		t.Errorf("got %v, %v, %v", properties, attributes, err)
	}
}
