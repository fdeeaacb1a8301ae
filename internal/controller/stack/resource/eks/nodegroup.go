package eks

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// nodegroups is the handler of AWS::EKS::Nodegroup. The physical ID is <cluster>/<node group>.
var nodegroups = updater[types.Nodegroup]{
	Handler: resource.Handle(resource.Table[*eks.Client, types.Nodegroup]{
		Client: newClient,
		Create: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			id := nodegroupID(r)
			members := resource.Members{"Tags": resource.Left, "ForceUpdateEnabled": resource.Left}
			_, err := resource.Create((*eks.Client).CreateNodegroup, members,
				func(out *eks.CreateNodegroupOutput) *string { return out.Nodegroup.NodegroupName },
				func(r *resource.Request, in *eks.CreateNodegroupInput) error {
					in.NodegroupName, in.Tags = aws.String(nodegroupName(r)), r.Wanted("Tags")
					return nil
				})(ctx, c, r)
			if err != nil {
				return "", err
			}
			return id, nil
		},
		Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			called := *r
			called.PhysicalID = nodegroupID(r)
			live, err := describeNodegroup(ctx, c, &called)
			if err == nil && !r.Owns(live.Tags) {
				err = resource.ErrNotFound
			}
			return called.PhysicalID, err
		},
		Describe: describeNodegroup,
		State:    nodegroupState,
		Configure: []resource.Step[*eks.Client]{
			setTags(func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
				live, err := describeNodegroup(ctx, c, r)
				if err != nil {
					return "", err
				}
				return aws.ToString(live.NodegroupArn), nil
			}),
			{Update: true, Properties: append([]string{"ForceUpdateEnabled"}, nodegroupUpdatable...)},
		},
		Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
			_, err := c.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{
				ClusterName: aws.String(idPart(r, "/", 0)), NodegroupName: aws.String(idPart(r, "/", 1)),
			})
			return err
		},
		Slow: true,
		Attributes: func(r *resource.Request, live *types.Nodegroup) map[string]any {
			return map[string]any{
				"Arn": aws.ToString(live.NodegroupArn), "Id": r.PhysicalID,
				"ClusterName": aws.ToString(live.ClusterName), "NodegroupName": aws.ToString(live.NodegroupName),
			}
		},
		Properties: nodegroupProperties,
		Poll:       poll,
	}),
	describe: describeNodegroup,
	busy:     func(live *types.Nodegroup) bool { return live.Status == types.NodegroupStatusUpdating },
	of: func(r *resource.Request, in *eks.DescribeUpdateInput) {
		in.Name, in.NodegroupName = aws.String(idPart(r, "/", 0)), aws.String(idPart(r, "/", 1))
	},
	changes: []change[types.Nodegroup]{nodegroupConfigChange, nodegroupVersionChange},
}

func nodegroupName(r *resource.Request) string {
	if name := r.Text("NodegroupName"); name != "" {
		return name
	}
	return r.Name
}

func nodegroupID(r *resource.Request) string { return r.Text("ClusterName") + "/" + nodegroupName(r) }

func describeNodegroup(ctx context.Context, c *eks.Client, r *resource.Request) (*types.Nodegroup, error) {
	out, err := c.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{
		ClusterName: aws.String(idPart(r, "/", 0)), NodegroupName: aws.String(idPart(r, "/", 1)),
	})
	if err != nil {
		return nil, err
	}
	return out.Nodegroup, nil
}

// nodegroupState tells how far a node group is. One that is degraded has nodes, as one whose update failed.
func nodegroupState(live *types.Nodegroup) (resource.State, error) {
	switch live.Status {
	case types.NodegroupStatusCreating, types.NodegroupStatusUpdating:
		return resource.Creating, nil
	case types.NodegroupStatusDeleting:
		return resource.Deleting, nil
	case types.NodegroupStatusCreateFailed, types.NodegroupStatusDeleteFailed:
		var issues []string
		if live.Health != nil {
			for _, i := range live.Health.Issues {
				issues = append(issues, issue(string(i.Code), aws.ToString(i.Message), i.ResourceIds))
			}
		}
		return resource.Deleting,
			failure("Nodegroup "+aws.ToString(live.NodegroupName), string(live.Status), issues)
	}
	return resource.Ready, nil
}

// nodegroupUpdatable are the properties that updates of EKS change.
var nodegroupUpdatable = []string{
	"Labels", "LaunchTemplate", "NodeRepairConfig", "ReleaseVersion", "ScalingConfig", "Taints", "UpdateConfig",
	"Version", "WarmPoolConfig",
}

func nodegroupProperties(
	_ context.Context, _ *eks.Client, r *resource.Request, live *types.Nodegroup,
) (map[string]any, error) {
	properties := pick(resource.Encode(live, nil), append([]string{
		"AmiType", "CapacityType", "ClusterName", "DiskSize", "InstanceTypes", "NodeRole", "NodegroupName",
		"RemoteAccess", "Subnets",
	}, nodegroupUpdatable...)...)
	if template, ok := properties["LaunchTemplate"].(map[string]any); ok && template["Id"] != nil {
		delete(template, "Name") // a template has one of them
	}
	tags := map[string]any{}
	for key, value := range r.LiveTags("Tags", live.Tags) {
		tags[key] = value
	}
	if len(tags) > 0 {
		properties["Tags"] = tags
	}
	return properties, nil
}

// nodegroupVersionChange replaces the nodes of a group with nodes of another version, release or launch template. It
// asks for what the template has changed alone: a version without a release is one with the newest release.
var nodegroupVersionChange = change[types.Nodegroup]{
	due: func(r *resource.Request, live *types.Nodegroup) (bool, error) {
		wanted := pick(changedOf(r, "Version", "ReleaseVersion", "LaunchTemplate"),
			"Version", "ReleaseVersion", "LaunchTemplate")
		return len(wanted) > 0 && !covers(resource.Encode(live, nil), wanted), nil
	},
	start: func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error) {
		in := &eks.UpdateNodegroupVersionInput{
			ClusterName: aws.String(idPart(r, "/", 0)), NodegroupName: aws.String(idPart(r, "/", 1)),
			ClientRequestToken: token, Force: aws.ToBool(r.Flag("ForceUpdateEnabled")),
		}
		if err := resource.Decode(changedOf(r, "Version", "ReleaseVersion", "LaunchTemplate"), in, nil); err != nil {
			return nil, err
		}
		if release := aws.ToString(in.ReleaseVersion); release != "" && r.Properties["Version"] == nil {
			in.Version = aws.String(minorOf(release)) // of which eksctl says nothing when it upgrades
		}
		out, err := c.UpdateNodegroupVersion(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Update, nil
	},
}

// minorOf returns the Kubernetes version of a release version: 1.36 of 1.36.3-20261105.
func minorOf(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// changedOf returns those of the properties that an update changes, unless the template leaves them out now.
func changedOf(r *resource.Request, names ...string) map[string]any {
	return pick(r.Properties, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !r.Changed(name) || r.Properties[name] == nil
	})...)
}

// nodegroupConfigChange changes the size, labels, taints and other settings of a group.
var nodegroupConfigChange = change[types.Nodegroup]{
	due: func(r *resource.Request, live *types.Nodegroup) (bool, error) {
		in, err := nodegroupConfig(r, live)
		return in != nil, err
	},
	start: func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error) {
		live, err := describeNodegroup(ctx, c, r)
		if err != nil {
			return nil, err
		}
		in, err := nodegroupConfig(r, live)
		if err != nil {
			return nil, err
		}
		if in == nil { // meanwhile somebody else did it
			return nil, resource.Errorf(resource.ResourceConflict, "Nodegroup %s has been changed", r.PhysicalID)
		}
		in.ClientRequestToken = token
		out, err := c.UpdateNodegroupConfig(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Update, nil
	},
}

// nodegroupConfig returns the request that changes a group to what the template has changed; nil if there is nothing to
// change.
func nodegroupConfig(r *resource.Request, live *types.Nodegroup) (*eks.UpdateNodegroupConfigInput, error) {
	wanted := changedOf(r, "ScalingConfig", "UpdateConfig", "NodeRepairConfig", "WarmPoolConfig")
	for name, off := range map[string]map[string]any{
		"NodeRepairConfig": {"Enabled": false}, "WarmPoolConfig": {"Enabled": false},
		"UpdateConfig": {"MaxUnavailable": 1},
	} {
		if r.Changed(name) && r.Properties[name] == nil {
			wanted[name] = off
		}
	}
	is := resource.Encode(live, nil)
	maps.DeleteFunc(wanted, func(name string, value any) bool { return covers(is[name], value) })
	in := &eks.UpdateNodegroupConfigInput{
		ClusterName: aws.String(idPart(r, "/", 0)), NodegroupName: aws.String(idPart(r, "/", 1)),
	}
	if err := resource.Decode(wanted, in, nil); err != nil {
		return nil, err
	}
	in.Labels = labelsChange(r, live)
	var err error
	if in.Taints, err = taintsChange(r, live); err != nil {
		return nil, err
	}
	if len(wanted) == 0 && in.Labels == nil && in.Taints == nil {
		return nil, nil
	}
	return in, nil
}

// labelsChange returns the labels that an update adds and removes, nil for none.
func labelsChange(r *resource.Request, live *types.Nodegroup) *types.UpdateLabelsPayload {
	if !r.Changed("Labels") {
		return nil
	}
	wanted, had := resource.OwnTags(r.Properties["Labels"]), resource.OwnTags(r.Previous["Labels"])
	payload := &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{}}
	for key, value := range wanted {
		if is, ok := live.Labels[key]; !ok || is != value {
			payload.AddOrUpdateLabels[key] = value
		}
	}
	for key := range had {
		_, kept := wanted[key]
		if _, is := live.Labels[key]; is && !kept {
			payload.RemoveLabels = append(payload.RemoveLabels, key)
		}
	}
	slices.Sort(payload.RemoveLabels)
	if len(payload.AddOrUpdateLabels) == 0 && len(payload.RemoveLabels) == 0 {
		return nil
	}
	return payload
}

// taintID is what a node has one taint of.
type taintID struct {
	key    string
	effect types.TaintEffect
}

func taintsByID(list []types.Taint) map[taintID]types.Taint {
	taints := make(map[taintID]types.Taint, len(list))
	for _, t := range list {
		taints[taintID{aws.ToString(t.Key), t.Effect}] = t
	}
	return taints
}

// taintsChange returns the taints that an update adds and removes, nil for none.
func taintsChange(r *resource.Request, live *types.Nodegroup) (*types.UpdateTaintsPayload, error) {
	if !r.Changed("Taints") {
		return nil, nil
	}
	var wanted, had struct{ Taints []types.Taint }
	if err := resource.Decode(pick(r.Properties, "Taints"), &wanted, nil); err != nil {
		return nil, err
	}
	if err := resource.Decode(pick(r.Previous, "Taints"), &had, nil); err != nil {
		return nil, err
	}
	is, kept := taintsByID(live.Taints), taintsByID(wanted.Taints)
	payload := &types.UpdateTaintsPayload{}
	for _, t := range wanted.Taints {
		now, ok := is[taintID{aws.ToString(t.Key), t.Effect}]
		if !ok || aws.ToString(now.Value) != aws.ToString(t.Value) {
			payload.AddOrUpdateTaints = append(payload.AddOrUpdateTaints, t)
		}
	}
	for _, t := range had.Taints {
		id := taintID{aws.ToString(t.Key), t.Effect}
		now, there := is[id]
		if _, stays := kept[id]; there && !stays {
			payload.RemoveTaints = append(payload.RemoveTaints, now)
		}
	}
	if payload.AddOrUpdateTaints == nil && payload.RemoveTaints == nil {
		return nil, nil
	}
	return payload, nil
}
