package addon

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestAddonStatus(t *testing.T) {
	t.Parallel()
	issues := []types.AddonIssue{{Code: types.AddonIssueCodeConfigurationConflict}}
	made := record.AddonState{Change: 2, Created: true}
	sick := record.AddonState{Change: 2, Created: true, Issues: issues}
	update := func(status types.UpdateStatus) record.Update { return record.Update{Status: status} }
	none, under, bad, good := record.Update{}, update(types.UpdateStatusInProgress), update(types.UpdateStatusFailed),
		update(types.UpdateStatusSuccessful)
	for _, c := range []struct {
		name     string
		deleting bool
		state    record.AddonState // of an add-on in its second change
		last     record.Update
		want     types.AddonStatus
	}{
		{"new", false, record.AddonState{}, none, types.AddonStatusCreating},
		{"new, with issues", false, record.AddonState{Change: 2, Issues: issues}, none, types.AddonStatusCreating},
		{"given up", false, record.AddonState{Change: 2, Failed: true, Issues: issues}, none,
			types.AddonStatusCreateFailed},
		{"created again, not looked at yet", false, record.AddonState{Change: 1, Failed: true, Issues: issues}, none,
			types.AddonStatusCreating},
		{"updated after it was given up", false, record.AddonState{Change: 1, Failed: true}, under,
			types.AddonStatusUpdating},
		{"given up in an update, too", false, record.AddonState{Change: 2, Failed: true, Issues: issues}, bad,
			types.AddonStatusCreateFailed},
		{"well", false, made, none, types.AddonStatusActive},
		{"after an update", false, made, good, types.AddonStatusActive},
		{"in an update", false, record.AddonState{Change: 1, Created: true}, under, types.AddonStatusUpdating},
		{"in an update, with issues", false, sick, under, types.AddonStatusUpdating},
		{"after an update that failed", false, sick, bad, types.AddonStatusUpdateFailed},
		{"after an update that failed, without issues", false, made, bad, types.AddonStatusUpdateFailed},
		{"after an update that was cancelled", false, made, update(types.UpdateStatusCancelled),
			types.AddonStatusActive},
		{"with issues", false, sick, good, types.AddonStatusDegraded},
		{"leaving", true, sick, none, types.AddonStatusDeleting},
		{"leaving, with an update that failed", true, sick, bad, types.AddonStatusDeleting},
		{"leaving, never created", true, record.AddonState{Change: 2, Failed: true}, none, types.AddonStatusDeleting},
		{"unable to leave", true, record.AddonState{Change: 2, Created: true, DeleteFailed: true, Issues: issues}, none,
			types.AddonStatusDeleteFailed},
	} {
		if got := status(record.Addon{Change: 2, Deleting: c.deleting}, c.state, c.last); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
