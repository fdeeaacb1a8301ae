package status

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxIssues is the number of problems of a stack, and of resources that it waits for, that are shown.
const maxIssues = 5

// stacks returns the stacks of all accounts that are not deleted, with what they wait for and why they failed.
func (r *Reporter) stacks(ctx context.Context) ([]admin.Stack, error) {
	rows, err := record.Stacks(r.o.Store).List(ctx, "")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	states, err := record.StackStates(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	observed := map[string]record.StackState{}
	for _, state := range states {
		observed[state.Key] = state.Value
	}
	var all []admin.Stack
	for _, row := range rows {
		s := row.Value
		status := record.StackStatus(s, observed[row.Key])
		if status == types.StackStatusDeleteComplete {
			continue
		}
		out := admin.Stack{Account: s.Account, Region: s.Region, Name: s.Name, ID: s.ARN(), Status: string(status)}
		if strings.HasSuffix(out.Status, "_IN_PROGRESS") {
			err = r.addPending(ctx, s, &out)
		}
		if err == nil && (strings.Contains(out.Status, "FAILED") || strings.Contains(out.Status, "ROLLBACK")) {
			err = r.addFailures(ctx, s, &out)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, out)
	}
	return all, nil
}

// addPending adds the resources of a stack that are being created, changed or deleted, the longest first.
func (r *Reporter) addPending(ctx context.Context, s record.Stack, out *admin.Stack) error {
	rows, err := record.StackResources(r.o.Store).List(ctx, store.Prefix(s.Account, s.Region, s.ID))
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(row store.Row[record.StackResource]) bool { return row.Value.Work == nil })
	slices.SortStableFunc(rows, func(a, b store.Row[record.StackResource]) int {
		return a.Value.Work.Since.Compare(b.Value.Work.Since)
	})
	for _, row := range rows[:min(len(rows), maxIssues)] {
		w := row.Value.Work
		out.Pending = append(out.Pending, admin.PendingResource{LogicalID: row.Value.LogicalID, Type: w.Target.Type,
			Status: strings.ToUpper(string(w.Action)) + "_IN_PROGRESS", Since: w.Since})
		if w.Failing != "" {
			out.Issues = append(out.Issues, row.Value.LogicalID+": "+w.Failing)
		}
	}
	return nil
}

// addFailures adds why the last operation of a stack failed: the first resources that did, or else what the stack says.
// A rollback by the user may have no failure of its own: then the last one before it counts.
func (r *Reporter) addFailures(ctx context.Context, s record.Stack, out *admin.Stack) error {
	rows, err := record.StackEvents(r.o.Store).List(ctx, store.Prefix(s.Account, s.Region, s.ID))
	if err != nil {
		return err
	}
	var issues, earlier []string
	reason := ""
	for _, row := range rows {
		e := row.Value
		status := string(e.Status)
		failed := strings.HasSuffix(status, "_FAILED")
		switch {
		case e.PhysicalID == s.ARN():
			if (failed || strings.Contains(status, "ROLLBACK")) && e.Reason != "" {
				reason = e.Reason
			}
		case !failed || strings.HasSuffix(e.Reason, " cancelled"):
		case e.At.Before(s.Operation.StartedAt):
			earlier = []string{e.LogicalID + ": " + e.Reason}
		default:
			issues = append(issues, e.LogicalID+": "+e.Reason)
		}
	}
	if len(issues) == 0 && s.Operation.Kind == record.StackRollback {
		issues = earlier
	}
	if len(issues) == 0 && reason != "" {
		issues = []string{reason}
	}
	out.Issues = append(out.Issues, issues[:min(len(issues), maxIssues)]...)
	return nil
}
