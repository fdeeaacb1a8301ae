package nodegroup

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestNodegroupStatus(t *testing.T) {
	t.Parallel()
	made := record.NodegroupState{Created: true}
	sick := record.NodegroupState{Created: true, Issues: []types.Issue{{Code: types.NodegroupIssueCodeAccessDenied}}}
	updating := record.Update{Status: types.UpdateStatusInProgress}
	for _, c := range []struct {
		name  string
		group record.Nodegroup
		state record.NodegroupState
		last  record.Update
		want  types.NodegroupStatus
	}{
		{"new", record.Nodegroup{}, record.NodegroupState{}, record.Update{}, types.NodegroupStatusCreating},
		{"new, with issues", record.Nodegroup{}, record.NodegroupState{Issues: sick.Issues}, record.Update{},
			types.NodegroupStatusCreating},
		{"given up", record.Nodegroup{}, record.NodegroupState{Failed: true, Issues: sick.Issues}, record.Update{},
			types.NodegroupStatusCreateFailed},
		{"well", record.Nodegroup{}, made, record.Update{}, types.NodegroupStatusActive},
		{"after an update", record.Nodegroup{}, made, record.Update{Status: types.UpdateStatusFailed},
			types.NodegroupStatusActive},
		{"in an update", record.Nodegroup{}, made, updating, types.NodegroupStatusUpdating},
		{"in an update, with issues", record.Nodegroup{}, sick, updating, types.NodegroupStatusUpdating},
		{"with issues", record.Nodegroup{}, sick, record.Update{}, types.NodegroupStatusDegraded},
		{"leaving", record.Nodegroup{Deleting: true}, sick, updating, types.NodegroupStatusDeleting},
		{"unable to leave", record.Nodegroup{Deleting: true}, record.NodegroupState{DeleteFailed: true},
			record.Update{}, types.NodegroupStatusDeleteFailed},
		{"leaving, after creation failed", record.Nodegroup{Deleting: true}, record.NodegroupState{Failed: true},
			record.Update{}, types.NodegroupStatusDeleting},
	} {
		if got := status(c.group, c.state, c.last); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestReservedLabels(t *testing.T) {
	t.Parallel()
	for key, reserved := range map[string]bool{
		"team": false, "example.com/team": false, "kubernetes.io": false, "kubernetes.io/arch": false,
		"notkubernetes.io/x":           false,
		"node.kubernetes.io/lifecycle": false, "a.node.kubernetes.io/x": false, "kubelet.kubernetes.io/x": false,
		"topology.kubernetes.io/zone":    false,
		"node-role.kubernetes.io/worker": true, "kubernetes.io/x": true, "k8s.io/x": true, "a.k8s.io/x": true,
		"karpenter.k8s.aws/x":         false,
		"eks.amazonaws.com/nodegroup": true, "a.eks.amazonaws.com/x": true,
	} {
		if got := reservedLabel(key); got != reserved {
			t.Errorf("%s: %v", key, got)
		}
	}
}
