package status

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// The status tells of each stack what it waits for, and why it failed.
func TestStacks(t *testing.T) {
	t.Parallel()
	const account, region = "111122223333", "eu-west-1"
	s, ctx := storetest.New(t), t.Context()
	began := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	type event struct {
		minute  int // after the operation began
		id      string
		status  types.ResourceStatus
		reason  string
		ofStack bool
	}
	add := func(name string, kind record.StackOperationKind, status types.StackStatus, events ...event) {
		t.Helper()
		key := record.StackKey(account, region, name)
		stack := record.Stack{Account: account, Region: region, Name: name, ID: name,
			Operation: record.StackOperation{ID: "op", Kind: kind, StartedAt: began}}
		if _, err := record.Stacks(s).Create(ctx, key, stack); err != nil {
			t.Fatal(err)
		}
		if _, err := record.StackStates(s).Create(ctx, key, record.StackState{Account: account, Region: region, ID: name,
			OperationID: "op", Status: status}); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			physical := "physical"
			if e.ofStack {
				physical = stack.ARN()
			}
			at := began.Add(time.Duration(e.minute) * time.Minute)
			if _, err := record.StackEvents(s).Create(ctx, record.StackEventKey(account, region, name, at, e.id),
				record.StackEvent{Account: account, ID: e.id, LogicalID: e.id, PhysicalID: physical, Status: e.status,
					Reason: e.reason, At: at}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("complete", record.StackCreate, types.StackStatusCreateComplete)
	add("deleted", record.StackDelete, types.StackStatusDeleteComplete)
	add("refused", record.StackCreate, types.StackStatusRollbackComplete,
		event{1, "A", types.ResourceStatusCreateFailed, "you may not", false},
		event{2, "B", types.ResourceStatusCreateFailed, "Resource creation cancelled", false},
		event{3, "refused", "ROLLBACK_IN_PROGRESS", "The following resource(s) failed to create: [A].", true})
	add("late", record.StackCreate, types.StackStatusRollbackComplete,
		event{1, "A", types.ResourceStatusCreateFailed, "Resource creation cancelled", false},
		event{2, "late", "ROLLBACK_IN_PROGRESS", "Stack creation time exceeded the specified timeout.", true})
	add("undone", record.StackRollback, types.StackStatusUpdateRollbackComplete,
		event{-9, "A", types.ResourceStatusUpdateFailed, "an earlier update", false},
		event{-5, "A", types.ResourceStatusUpdateFailed, "the last update", false})
	add("stuck", record.StackDelete, types.StackStatusDeleteInProgress)
	if _, err := record.StackResources(s).Create(ctx, record.StackResourceKey(account, region, "stuck", "Vpc"),
		record.StackResource{Account: account, Region: region, StackID: "stuck", LogicalID: "Vpc",
			Work: &record.StackWork{Action: record.ResourceDelete, Since: began, Failing: "it has dependencies",
				Target: record.StackPhysical{Type: "AWS::EC2::VPC"}}}); err != nil {
		t.Fatal(err)
	}

	got, err := New(Options{Store: s}).stacks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := func(name string, status types.StackStatus, issues ...string) admin.Stack {
		return admin.Stack{Account: account, Region: region, Name: name, ID: record.StackARN(account, region, name, name),
			Status: string(status), Issues: issues}
	}
	stuck := want("stuck", types.StackStatusDeleteInProgress, "Vpc: it has dependencies")
	stuck.Pending = []admin.PendingResource{{LogicalID: "Vpc", Type: "AWS::EC2::VPC", Status: "DELETE_IN_PROGRESS",
		Since: began}}
	if diff := cmp.Diff([]admin.Stack{
		want("complete", types.StackStatusCreateComplete),
		want("late", types.StackStatusRollbackComplete, "Stack creation time exceeded the specified timeout."),
		want("refused", types.StackStatusRollbackComplete, "A: you may not"),
		stuck,
		want("undone", types.StackStatusUpdateRollbackComplete, "A: the last update"),
	}, got); diff != "" {
		t.Error(diff)
	}
}
