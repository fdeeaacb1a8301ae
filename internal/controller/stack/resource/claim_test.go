package resource_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// harbor is a service whose boats have names, and nothing else.
type harbor map[string]string

func newHarbor() (harbor, resource.Handler) {
	h := harbor{}
	return h, resource.Claim(resource.Table[harbor, string]{
		Client: func(aws.Config) harbor { return h },
		Create: func(_ context.Context, h harbor, r *resource.Request) (string, error) {
			name := boatName(r)
			if h[name] != "" {
				return "", resource.Errorf(resource.AlreadyExists, "%s exists", name)
			}
			h[name] = r.LogicalID
			return name, nil
		},
		Describe: func(_ context.Context, h harbor, r *resource.Request) (*string, error) {
			if owner, ok := h[r.PhysicalID]; ok {
				return &owner, nil
			}
			return nil, resource.ErrNotFound
		},
		Delete: func(_ context.Context, h harbor, r *resource.Request) error {
			delete(h, r.PhysicalID)
			return nil
		},
	}, func(r *resource.Request) (string, bool) { return boatName(r), r.Text("Name") == "" })
}

func boatName(r *resource.Request) string {
	if name := r.Text("Name"); name != "" {
		return name
	}
	return r.Name
}

func TestCustomNamesAreClaimed(t *testing.T) {
	t.Parallel()
	boats, handler := newHarbor()
	r := &resource.Request{LogicalID: "Boat", Name: "fleet-boat-1", Properties: map[string]any{"Name": "ark"}}
	first, err := handler.Create(t.Context(), r)
	if err != nil || first.PhysicalID != "ark" || first.Pending <= 0 || len(boats) != 0 {
		t.Fatalf("the first call: got %+v, %v, and boats %v", first, err, boats)
	}
	r.PhysicalID, r.Progress = first.PhysicalID, first.Progress
	for range 2 { // the first answer is lost
		second, err := handler.Create(t.Context(), r)
		if err != nil || second.PhysicalID != "ark" || second.Pending != 0 || boats["ark"] != "Boat" {
			t.Fatalf("the second call: got %+v, %v, and boats %v", second, err, boats)
		}
	}
}

func TestNamesOfOthersAreNotTaken(t *testing.T) {
	t.Parallel()
	boats, handler := newHarbor()
	boats["ark"] = "Noah"
	r := &resource.Request{LogicalID: "Boat", Properties: map[string]any{"Name": "ark"}}
	for _, r.Retried = range []bool{false, true} {
		if _, err := handler.Create(t.Context(), r); resource.Classify(err) != resource.AlreadyExists {
			t.Errorf("retried: %t: got %v", r.Retried, err)
		}
	}
	if _, err := handler.Delete(t.Context(), r); err != nil || boats["ark"] != "Noah" {
		t.Errorf("a deletion without a physical ID: %v, and boats %v", err, boats)
	}
}

func TestGeneratedNamesAreTheStacksOwn(t *testing.T) {
	t.Parallel()
	boats, handler := newHarbor()
	r := &resource.Request{LogicalID: "Boat", Name: "fleet-boat-1"}
	for range 2 { // the first answer is lost
		result, err := handler.Create(t.Context(), r)
		if err != nil || result.PhysicalID != "fleet-boat-1" || result.Pending != 0 {
			t.Fatalf("got %+v, %v", result, err)
		}
		r.Retried = true
	}
	if _, err := handler.Delete(t.Context(), r); err != nil || len(boats) != 0 {
		t.Errorf("a deletion of what a lost answer told of: %v, and boats %v", err, boats)
	}
}

func TestLiveTags(t *testing.T) {
	t.Parallel()
	r := &resource.Request{
		StackID: "stack", LogicalID: "Boat", Tags: map[string]string{"team": "a", "cost": "b"},
		Properties: map[string]any{"Tags": []any{map[string]any{"Key": "cost", "Value": "b"}}},
	}
	live := map[string]string{
		resource.TagStackID: "stack", resource.TagLogicalID: "Boat", "team": "a", "cost": "b", "more": "c",
	}
	got, want := r.LiveTags("Tags", live), map[string]string{"cost": "b", "more": "c"}
	if len(got) != len(want) || got["cost"] != "b" || got["more"] != "c" {
		t.Errorf("got %v, want %v", got, want)
	}
	if !r.Owns(live) {
		t.Error("the tags of the resource are not its own")
	}
	live[resource.TagLogicalID] = "Other"
	if r.Owns(live) {
		t.Error("the tags of another resource are its own")
	}
}
