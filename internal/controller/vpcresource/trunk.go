package vpcresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coracle-eks/coracle/internal/instancetype"
)

const (
	ownerTag, owner, pluginOwner = "eks:eni:owner", "eks-vpc-resource-controller", "amazon-vpc-cni"
	clusterTagPrefix             = "kubernetes.io/cluster/"
	trunkTag, vlanTag            = "vpcresources.k8s.aws/trunk-eni-id", "vpcresources.k8s.aws/vlan-id"

	trunkDescription, branchDescription = "aws-k8s-trunk-eni", "aws-k8s-branch-eni"
)

var eniConfigs = schema.GroupVersionResource{Group: "crd.k8s.amazonaws.com", Version: "v1alpha1",
	Resource: "eniconfigs"}

// instance is what EC2 says of the instance of a node.
type instance struct {
	id       string
	kind     instancetype.Type
	trunk    string // the ID of its trunk network interface; "" without
	subnet   string
	groups   []string
	free     int32                              // the highest device index that is free; -1 without one
	attached *ec2types.InstanceNetworkInterface // the trunk as it was found
}

// serveNode gives a node its trunk, and its pods their branches.
func (s *server) serveNode(ctx context.Context, n node, cni cniNode) (time.Duration, error) {
	state := s.state(n.name)
	api, err := s.o.EC2(ctx, s.cluster)
	if err != nil {
		s.o.Log.Debug("cannot act under the role of a cluster", "cluster", s.cluster.Name, "error", describe(err))
		return retryRefused, nil
	}
	p := &pass{server: s, api: api, node: n, state: state}
	if !state.noticed {
		state.noticed = true
		s.emit(ctx, nodeReference(n), corev1.EventTypeNormal, "ControllerVersionNotice",
			"The node is managed by VPC resource controller version "+version)
	}
	if state.instance == nil || state.instance.id != n.instanceID {
		if state.instance, err = p.findInstance(ctx); err != nil {
			return p.failedToInitialize(ctx, err)
		}
	}
	i := state.instance
	if i.kind.MaxBranchENIs == 0 {
		s.emit(ctx, nodeReference(n), corev1.EventTypeWarning, "Unsupported", fmt.Sprintf(
			"The instance type %s is not supported for trunk interface (Security Group for Pods)", i.kind.Name))
		return 0, nil
	}
	if err := p.customize(ctx, n.eniConfig, cni.eniConfig); err != nil {
		s.emit(ctx, nodeReference(n), corev1.EventTypeWarning, "EniConfigNameNotFound", describe(err))
		return retryRefused, nil
	}
	if i.trunk == "" || i.attached != nil {
		if err := p.ensureTrunk(ctx); err != nil {
			state.instance = nil // what was wrong may have changed
			return p.failedToInitialize(ctx, err)
		}
		s.emit(ctx, nodeReference(n), corev1.EventTypeNormal, "NodeTrunkInitiated",
			"The node has trunk interface initialized successfully")
	}
	if err := s.advertise(ctx, n, i.kind.MaxBranchENIs); err != nil {
		return 0, err
	}
	return p.reconcileBranches(ctx)
}

// pass is one pass over a node.
type pass struct {
	*server
	api   EC2
	node  node
	state *nodeState
	// subnet and groups are those of new interfaces: the instance's, or those of an ENIConfig.
	subnet string
	groups []string
}

// failedToInitialize tells why a node has no trunk.
func (p *pass) failedToInitialize(ctx context.Context, err error) (time.Duration, error) {
	if code := codeOf(err); code != "" {
		message := "Failed to create trunk interface: Error Code: " + code
		if code == "UnauthorizedOperation" {
			message += ": Please verify the cluster IAM role has AmazonEKSVPCResourceController policy"
		}
		p.emit(ctx, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: p.node.name, UID: p.node.uid},
			corev1.EventTypeWarning, "TrunkENICreationFailed", message)
	}
	p.emit(ctx, nodeReference(p.node), corev1.EventTypeNormal, "NodeTrunkFailedInit",
		"The node failed initializing trunk interface")
	p.o.Log.Info("cannot give a node a trunk network interface", "cluster", p.cluster.Name, "node", p.node.name, "error",
		describe(err))
	return retryRefused, nil
}

// findInstance returns the instance of the node. Whoever may write nodes can name any instance there: it is the node's
// if it is in the VPC of the cluster, and has the node's name, by which the authenticator knows its kubelet.
func (p *pass) findInstance(ctx context.Context) (*instance, error) {
	out, err := p.api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{p.node.instanceID}})
	if err != nil {
		return nil, err
	}
	if len(out.Reservations) == 0 || len(out.Reservations[0].Instances) == 0 {
		return nil, fmt.Errorf("EC2 knows no instance %s", p.node.instanceID)
	}
	found := out.Reservations[0].Instances[0]
	if found.SubnetId == nil {
		return nil, fmt.Errorf("instance %s is terminated", p.node.instanceID)
	}
	if vpc, name := aws.ToString(found.VpcId), aws.ToString(found.PrivateDnsName); vpc != p.cluster.VPCID ||
		name != p.node.name {
		return nil, fmt.Errorf("the provider ID of node %s names the instance %s, which is %q in %s", p.node.name,
			p.node.instanceID, name, vpc)
	}
	i := &instance{id: p.node.instanceID, subnet: *found.SubnetId, free: -1}
	var known bool
	if i.kind, known = instancetype.Get(string(found.InstanceType)); !known {
		i.kind.Name = string(found.InstanceType)
	}
	taken := map[int32]bool{}
	for _, eni := range found.NetworkInterfaces {
		index := aws.ToInt32(eni.Attachment.DeviceIndex)
		taken[index] = true
		if index == 0 {
			for _, g := range eni.Groups {
				i.groups = append(i.groups, *g.GroupId)
			}
		}
		if aws.ToString(eni.InterfaceType) == string(ec2types.NetworkInterfaceTypeTrunk) {
			i.trunk, i.attached = *eni.NetworkInterfaceId, &eni
		}
	}
	for index := int32(i.kind.MaxENIs) - 1; index > 0 && i.free < 0; index-- {
		if !taken[index] {
			i.free = index
		}
	}
	return i, nil
}

// customize sets where new interfaces are: in the subnet of the instance, with the groups of its primary interface, or
// where the ENIConfig of custom networking says.
// https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network.html
func (p *pass) customize(ctx context.Context, names ...string) error {
	p.subnet, p.groups = p.state.instance.subnet, p.state.instance.groups
	for _, name := range names {
		if name == "" {
			continue
		}
		o, err := p.objects.Resource(eniConfigs).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to find the ENIConfig %s", name)
		}
		if err != nil {
			return err
		}
		if subnet, _, _ := unstructured.NestedString(o.Object, "spec", "subnet"); subnet != "" {
			p.subnet = subnet
			if groups, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "securityGroups"); len(groups) > 0 {
				p.groups = groups
			}
		}
		return nil
	}
	return nil
}

// ensureTrunk gives the instance a trunk, which goes with it.
func (p *pass) ensureTrunk(ctx context.Context) error {
	i := p.state.instance
	if i.trunk != "" {
		if !aws.ToBool(i.attached.Attachment.DeleteOnTermination) {
			if err := p.goesWithInstance(ctx, i.trunk, i.attached.Attachment.AttachmentId); err != nil {
				return err
			}
		}
		i.attached = nil
		return nil
	}
	if i.free < 0 {
		return errors.New("no free device index found")
	}
	id, err := p.makeTrunk(ctx)
	if err != nil {
		return fmt.Errorf("creating network interface, %w", err)
	}
	out, err := p.api.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{DeviceIndex: &i.free,
		InstanceId: &p.node.instanceID, NetworkInterfaceId: &id})
	if err != nil {
		_, deleting := p.api.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id})
		return errors.Join(fmt.Errorf("attaching network interface, %w", err), deleting)
	}
	if err := p.goesWithInstance(ctx, id, out.AttachmentId); err != nil {
		return err
	}
	i.trunk = id
	return nil
}

// makeTrunk returns a trunk that is attached to nothing: one that was made for the instance before, or a new one.
func (p *pass) makeTrunk(ctx context.Context) (string, error) {
	left, err := p.interfaces(ctx, filter("tag:"+instanceTag, p.node.instanceID), filter("tag:"+ownerTag, owner),
		filter("interface-type", "trunk"), filter("status", "available"))
	if err != nil {
		return "", err
	}
	if len(left) > 0 {
		return *left[0].NetworkInterfaceId, nil
	}
	out, err := p.api.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
		Description: aws.String(trunkDescription), SubnetId: &p.subnet, Groups: p.groups,
		InterfaceType: ec2types.NetworkInterfaceCreationTypeTrunk, TagSpecifications: p.tags(),
	})
	if err != nil {
		return "", err
	}
	return *out.NetworkInterface.NetworkInterfaceId, nil
}

func (p *pass) goesWithInstance(ctx context.Context, id string, attachment *string) error {
	_, err := p.api.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: &id, Attachment: &ec2types.NetworkInterfaceAttachmentChanges{AttachmentId: attachment,
			DeleteOnTermination: aws.Bool(true)}})
	if err != nil {
		return fmt.Errorf("enabling delete on termination, %w", err)
	}
	return nil
}

// tags returns the tags of new interfaces: those of all, and more.
func (p *pass) tags(more ...ec2types.Tag) []ec2types.TagSpecification {
	return []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeNetworkInterface,
		Tags: append(more, tag(instanceTag, p.node.instanceID), tag(ownerTag, owner),
			tag(clusterTagPrefix+p.cluster.Name, "owned"))}}
}

func tag(key, value string) ec2types.Tag { return ec2types.Tag{Key: &key, Value: &value} }

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// interfaces returns the network interfaces that pass filters.
func (p *pass) interfaces(ctx context.Context, by ...ec2types.Filter) ([]ec2types.NetworkInterface, error) {
	return listInterfaces(ctx, p.api, by...)
}

func listInterfaces(ctx context.Context, api EC2, by ...ec2types.Filter) (all []ec2types.NetworkInterface, err error) {
	pages := ec2.NewDescribeNetworkInterfacesPaginator(api, &ec2.DescribeNetworkInterfacesInput{Filters: by,
		MaxResults: aws.Int32(1000)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.NetworkInterfaces...)
	}
	return all, nil
}

// errInstanceExists reports that an instance is not terminated yet.
var errInstanceExists = errors.New("the instance is not terminated")

// deleteLeftOf deletes the interfaces that an instance which is terminated has left: those of its pods and its CNI
// plugin. Whoever may write CNINodes can name any instance there.
func (s *server) deleteLeftOf(ctx context.Context, instance string) error {
	api, err := s.o.EC2(ctx, s.cluster)
	if err != nil {
		return err
	}
	out, err := api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	if err != nil && codeOf(err) != "InvalidInstanceID.NotFound" {
		return err
	}
	if err == nil {
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				if i.State == nil || i.State.Name != ec2types.InstanceStateNameTerminated {
					return errInstanceExists
				}
			}
		}
	}
	all, err := listInterfaces(ctx, api, filter("tag:"+instanceTag, instance),
		filter("tag:"+ownerTag, owner, pluginOwner))
	if err != nil {
		return err
	}
	var failures []error
	for _, eni := range all {
		if eni.Attachment != nil {
			continue // goes with the instance
		}
		if !s.owns(eni) && !(hasTag(eni, ownerTag, pluginOwner) && hasTag(eni, clusterTag, s.cluster.Name)) {
			continue // of another cluster
		}
		if err := s.deleteInterface(ctx, api, *eni.NetworkInterfaceId); err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}
