package nodegroup

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestIssuesOfATenantAreShort has errors that quote a megabyte of what a user of the cluster has written. The same
// error is the same issue in the next pass.
func TestIssuesOfATenantAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1<<20)
	g := &group{row: record.Nodegroup{Name: "ng"}}
	for range 2 {
		for _, err := range []error{
			g.malformed(errors.New(long)), g.invalidTemplate(record.NodegroupTemplate{}, long),
			&smithy.GenericAPIError{Code: "AccessDenied", Message: "b" + long},
		} {
			if err := g.recordIssue(err); err != nil {
				t.Error(err)
			}
		}
	}
	if len(g.issues) != 3 {
		t.Errorf("%d issues", len(g.issues))
	}
	for _, issue := range g.issues {
		if n := len(*issue.Message); n > record.MaxReason {
			t.Errorf("the message of %s has %d bytes", issue.Code, n)
		}
	}
}
