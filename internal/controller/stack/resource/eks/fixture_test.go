package eks_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/eks"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// fixture is the EKS API with a stack in it, and plays the controllers of clusters, node groups, Fargate profiles,
// capabilities and add-ons.
type fixture struct {
	resourcetest.Stack
	eks *ekstest.Fixture
	// ended are the types of the updates that the controllers have ended, in their order.
	ended []types.UpdateType
	// broken has the controllers fail.
	broken bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{eks: ekstest.New(t)}
	w.eks.Sessions = map[string]wire.Caller{resourcetest.Session: resourcetest.Caller()}
	w.Stack = resourcetest.Stack{
		T: t, Types: eks.Types, Config: resourcetest.NewConfig(w.eks.URL, ekstest.Region), Controllers: w.reconcile,
		Keys: func() []string {
			return slices.DeleteFunc(slices.Sorted(maps.Keys(w.eks.Contents())), func(key string) bool {
				// The access entries of the roles of capabilities stay, as on EKS.
				return strings.HasPrefix(key, "update/") ||
					strings.HasPrefix(key, "accessentry/") && strings.Contains(key, "capability")
			})
		},
	}
	return w
}

// list returns the rows of a table.
func list[T any](w *fixture, table store.Table[T]) []store.Row[T] {
	w.T.Helper()
	rows, err := table.List(w.T.Context(), "")
	if err != nil {
		w.T.Fatal(err)
	}
	return rows
}

func (w *fixture) remove(ops ...store.Op) {
	w.T.Helper()
	if err := w.eks.Store.Txn(w.T.Context(), ops...); err != nil {
		w.T.Fatal(err)
	}
}

// reconcile carries out what is wanted of all clusters, node groups, Fargate profiles, capabilities and add-ons.
func (w *fixture) reconcile() {
	w.T.Helper()
	at := w.eks.Store
	for _, row := range list(w, record.Updates(at)) {
		if u := row.Value; u.Status == types.UpdateStatusInProgress {
			status := types.UpdateStatusSuccessful
			if w.broken {
				status = types.UpdateStatusFailed
			}
			w.eks.Finish(u.Cluster, u.ID, status)
			w.ended = append(w.ended, u.Type)
		}
	}
	for _, row := range list(w, record.Nodegroups(at)) {
		n := row.Value
		if n.Deleting {
			w.remove(record.Nodegroups(at).RemoveOp(row.Key), record.NodegroupStates(at).RemoveOp(row.Key))
			continue
		}
		state := record.NodegroupState{
			NodegroupID: n.ID, Created: true, Scaling: n.Scaling, ScalingChange: n.ScalingChange, Template: n.Template,
			TemplateHash: "hash", AutoScalingGroup: "eks-" + n.Name,
		}
		if w.broken {
			state = record.NodegroupState{NodegroupID: n.ID, Failed: true, Issues: []types.Issue{{
				Code: types.NodegroupIssueCodeNodeCreationFailure, Message: aws.String("Instances failed to join"),
				ResourceIds: []string{"i-1"},
			}}}
		}
		ekstest.Put(w.T, record.NodegroupStates(at), row.Key, state)
	}
	for _, row := range list(w, record.FargateProfiles(at)) {
		p := row.Value
		if p.Deleting {
			w.remove(record.FargateProfiles(at).RemoveOp(row.Key), record.FargateProfileStates(at).RemoveOp(row.Key))
			continue
		}
		state := record.FargateProfileState{ProfileID: p.ID, Created: !w.broken, Failed: w.broken}
		if w.broken {
			state.Issues = []types.FargateProfileIssue{{
				Code: types.FargateProfileIssueCodeAccessDenied, Message: aws.String("The role was not let in"),
			}}
		}
		ekstest.Put(w.T, record.FargateProfileStates(at), row.Key, state)
	}
	for _, row := range list(w, record.Capabilities(at)) {
		c := row.Value
		if c.Deleting {
			w.remove(record.Capabilities(at).RemoveOp(row.Key), record.CapabilityStates(at).RemoveOp(row.Key))
			continue
		}
		state := record.CapabilityState{
			CapabilityID: c.ID, Change: c.Change, Created: !w.broken, Failed: w.broken, Version: "v0.9.4",
		}
		if w.broken {
			state.Issues = []types.CapabilityIssue{{
				Code: types.CapabilityIssueCodeAccessDenied, Message: aws.String("The role was not let in"),
			}}
		}
		ekstest.Put(w.T, record.CapabilityStates(at), row.Key, state)
	}
	for _, row := range list(w, record.Addons(at)) {
		a := row.Value
		if a.Deleting {
			w.remove(record.Addons(at).RemoveOp(row.Key), record.AddonStates(at).RemoveOp(row.Key))
			for _, p := range list(w, record.PodIdentityAssociations(at)) {
				if p.Value.AddonID == a.ID {
					w.remove(record.PodIdentityAssociations(at).RemoveOp(p.Key))
				}
			}
			continue
		}
		state := record.AddonState{AddonID: a.ID, Change: a.Change, Applied: a.Wanted, Created: !w.broken, Failed: w.broken}
		if w.broken {
			state.Issues = []types.AddonIssue{{
				Code: types.AddonIssueCodeConfigurationConflict, Message: aws.String("Apply failed with 2 conflicts"),
			}}
		}
		ekstest.Put(w.T, record.AddonStates(at), row.Key, state)
	}
	for _, row := range list(w, record.Clusters(at)) {
		c := row.Value
		switch {
		case c.Deleting:
			w.remove(record.Clusters(at).RemoveOp(row.Key), record.ControlPlanes(at).RemoveOp(row.Key))
			for _, e := range list(w, record.AccessEntries(at)) {
				if e.Value.ClusterID == c.ID {
					w.remove(record.AccessEntries(at).RemoveOp(e.Key))
				}
			}
		case w.broken:
			w.eks.Observe(c.Name, record.ControlPlane{Failed: "the API server did not come up"})
		default:
			w.eks.Ready(c.Name)
		}
	}
}

// cluster creates a cluster that others need.
func (w *fixture) cluster(name string) *resource.Request {
	w.T.Helper()
	r := w.Request("Cluster", clusterProperties(name))
	w.Create("AWS::EKS::Cluster", r)
	return r
}

func clusterProperties(name string) string {
	return `{"Name": "` + name + `", "RoleArn": "` + ekstest.RoleARN + `", "Version": "1.34",
		"ResourcesVpcConfig": {"SubnetIds": ["subnet-a", "subnet-b"]}, "AccessConfig": {"AuthenticationMode": "API"}}`
}
