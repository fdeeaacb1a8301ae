package vpcresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	webhook "github.com/coracle-eks/coracle/internal/kube/vpcresource"
)

// maxVLAN is the highest VLAN ID that a branch gets, as upstream has it. There is none with 0.
const maxVLAN = 120

// eni is a branch network interface as the annotation of its pod describes it to the CNI plugin.
type eni struct {
	ID            string `json:"eniId"`
	MAC           string `json:"ifAddress"`
	IPv4          string `json:"privateIp"`
	IPv6          string `json:"ipv6Addr"`
	VLAN          int32  `json:"vlanId"`
	SubnetCIDR    string `json:"subnetCidr"`
	SubnetIPv6    string `json:"subnetV6Cidr"`
	AssociationID string `json:"associationID"`
}

// reconcileBranches deletes the branches that no pod has any more and have cooled down, and gives those to pods that
// want some.
func (p *pass) reconcileBranches(ctx context.Context) (time.Duration, error) {
	names, pods := p.mirror.podsOn(p.node.name)
	branches, err := p.interfaces(ctx, filter("tag:"+trunkTag, p.state.instance.trunk))
	if err != nil {
		return p.refused(err)
	}
	if len(names) == 0 && len(branches) == 0 {
		return 0, nil
	}
	used := map[string]bool{}
	for _, pod := range pods {
		var has []eni
		if pod.ended || json.Unmarshal([]byte(pod.annotation), &has) != nil {
			continue
		}
		for _, e := range has {
			used[e.ID] = true
		}
	}
	unread, err := p.hasUnread(ctx, pods)
	if err != nil {
		return 0, err
	}
	left, after, err := p.deleteCooled(ctx, branches, func(id string) bool { return unread || used[id] })
	if err != nil {
		return p.refused(err)
	}
	if unread {
		after = soonest(after, retryRefused)
	}
	for _, at := range names {
		pod := pods[at]
		if pod.ended || pod.annotation != "" || pod.count == 0 {
			continue
		}
		if len(left)+int(pod.count) > p.state.instance.kind.MaxBranchENIs {
			after = soonest(after, time.Duration(p.coolDown.Load()))
			continue
		}
		made, err := p.allocate(ctx, at, pod, left)
		if err != nil {
			p.o.Log.Debug("cannot give a pod a network interface", "cluster", p.cluster.Name, "pod", at.String(), "error",
				describe(err))
			after = soonest(after, retryRefused)
		}
		left = append(left, made...)
	}
	return after, nil
}

// refused has a node tried again that AWS has refused something for.
func (p *pass) refused(err error) (time.Duration, error) {
	if codeOf(err) == "" {
		return 0, err
	}
	if codeOf(err) == "InvalidNetworkInterfaceID.NotFound" {
		p.state.instance = nil // somebody has deleted the trunk
	}
	p.o.Log.Debug("cannot reconcile network interfaces of a node", "cluster", p.cluster.Name, "node", p.node.name, "error",
		describe(err))
	return retryRefused, nil
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// hasUnread reports whether a pod runs on the node that is too large to be read. Of those that do not even say their
// node, the API server knows it.
func (p *pass) hasUnread(ctx context.Context, pods map[types.NamespacedName]pod) (bool, error) {
	somewhere := false
	for _, pod := range pods {
		if !pod.unread || pod.ended {
			continue
		}
		if pod.node != "" {
			return true, nil
		}
		somewhere = true
	}
	if !somewhere {
		return false, nil
	}
	here := false
	_, err := kubeclient.EachPage(kubeclient.WithPartial(ctx), metav1.ListOptions{FieldSelector: "spec.nodeName=" +
		p.node.name + ",status.phase!=Succeeded,status.phase!=Failed"}, p.core.Pods(metav1.NamespaceAll).List,
		func(page *corev1.PodList) {
			for i := range page.Items {
				at := types.NamespacedName{Namespace: page.Items[i].Namespace, Name: page.Items[i].Name}
				here = here || pods[at].unread
			}
		})
	return here, err
}

// deleteCooled deletes the branches that no pod has had for the cool-down. It returns those that are left, and the time
// until the next one has cooled down.
func (p *pass) deleteCooled(ctx context.Context, branches []ec2types.NetworkInterface, used func(id string) bool) (
	left []ec2types.NetworkInterface, after time.Duration, err error) {
	now := p.o.Clock.Now()
	there := map[string]bool{}
	for _, b := range branches {
		id := *b.NetworkInterfaceId
		there[id] = true
		if used(id) || !p.owns(b) {
			delete(p.state.coolsAt, id)
			left = append(left, b)
			continue
		}
		cooled, cooling := p.state.coolsAt[id]
		if !cooling {
			cooled = now.Add(time.Duration(p.coolDown.Load()))
			p.state.coolsAt[id] = cooled
		}
		if wait := cooled.Sub(now); wait > 0 {
			after, left = soonest(after, wait), append(left, b)
			continue
		}
		if err := p.deleteInterface(ctx, p.api, id); err != nil {
			return nil, 0, err
		}
	}
	for id := range p.state.coolsAt {
		if !there[id] {
			delete(p.state.coolsAt, id)
		}
	}
	return left, after, nil
}

// owns reports whether the controller has made an interface for a node of this cluster. Whoever may write nodes and
// CNINodes of a cluster can name the instances of another one.
func (s *server) owns(b ec2types.NetworkInterface) bool {
	return hasTag(b, ownerTag, owner) && hasTag(b, clusterTagPrefix+s.cluster.Name, "owned")
}

func hasTag(b ec2types.NetworkInterface, key, value string) bool {
	return slices.ContainsFunc(b.TagSet, func(t ec2types.Tag) bool {
		return aws.ToString(t.Key) == key && aws.ToString(t.Value) == value
	})
}

// deleteInterface ends the association of a branch with its trunk, and deletes it.
func (s *server) deleteInterface(ctx context.Context, api EC2, id string) error {
	trunks := s.o.Trunks(s.cluster.Account, s.cluster.Region)
	pages := ec2.NewDescribeTrunkInterfaceAssociationsPaginator(trunks, &ec2.DescribeTrunkInterfaceAssociationsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, a := range page.InterfaceAssociations {
			if *a.BranchInterfaceId != id {
				continue
			}
			_, err := trunks.DisassociateTrunkInterface(ctx,
				&ec2.DisassociateTrunkInterfaceInput{AssociationId: a.AssociationId})
			if err != nil && codeOf(err) != "InvalidAssociationID.NotFound" {
				return err
			}
		}
	}
	_, err := api.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id})
	if err != nil && codeOf(err) != "InvalidNetworkInterfaceID.NotFound" {
		return err
	}
	return nil
}

// allocate gives a pod its branches, beside those that there are. It returns the new ones.
func (p *pass) allocate(ctx context.Context, at types.NamespacedName, known pod, there []ec2types.NetworkInterface) (
	made []ec2types.NetworkInterface, err error) {
	now, err := p.core.Pods(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (now.UID != known.uid || now.Annotations[webhook.PodENI] != "") {
		return nil, nil // the watch is about to say so
	}
	if err != nil {
		return nil, err
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: at.Namespace, Name: at.Name, UID: now.UID}
	groups, err := p.groupsOf(ctx, now)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		groups = p.groups
		p.emit(ctx, about, corev1.EventTypeWarning, "SecurityGroupRequested", "Pod will get the instance security group as "+
			"the pod didn't match any Security Group from SecurityGroupPolicy")
	} else {
		p.emit(ctx, about, corev1.EventTypeNormal, "SecurityGroupRequested",
			fmt.Sprintf("Pod will get the following Security Groups %v", groups))
	}
	described, made, err := p.createBranches(ctx, groups, known.count, there)
	if err != nil {
		p.emit(ctx, about, corev1.EventTypeWarning, "BranchAllocationFailed",
			"failed to allocate branch ENI to pod: "+describe(err))
		return p.discard(ctx, made), err
	}
	annotation, err := json.Marshal(described)
	if err != nil {
		return p.discard(ctx, made), err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": now.UID,
		"annotations": map[string]string{webhook.PodENI: string(annotation)}}})
	if err != nil {
		return p.discard(ctx, made), err
	}
	_, err = p.core.Pods(at.Namespace).Patch(ctx, at.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		p.emit(ctx, about, corev1.EventTypeWarning, "BranchENIAnnotationFailed",
			"failed to annotate pod with branch ENI details: "+describe(err))
		return made, err // the patch may have arrived: the interfaces cool down unless it has
	}
	p.mirror.annotated(at, now.UID, string(annotation))
	p.emit(ctx, about, corev1.EventTypeNormal, "ResourceAllocated", fmt.Sprintf("Allocated %s to the pod", annotation))
	return made, nil
}

// discard deletes branches that no pod has had. It returns those that are still there.
func (p *pass) discard(ctx context.Context, made []ec2types.NetworkInterface) []ec2types.NetworkInterface {
	return slices.DeleteFunc(made, func(b ec2types.NetworkInterface) bool {
		err := p.deleteInterface(ctx, p.api, *b.NetworkInterfaceId)
		return err == nil // or it cools down, and is deleted then
	})
}

// groupsOf returns the security groups of the policies that select a pod.
func (s *server) groupsOf(ctx context.Context, p *corev1.Pod) ([]string, error) {
	return webhook.Groups(ctx, webhook.Reader{Objects: s.objects, Core: s.core}, p.Namespace, p.Labels,
		p.Spec.ServiceAccountName)
}

// createBranches creates branches and associates them with the trunk.
func (p *pass) createBranches(ctx context.Context, groups []string, count int64, there []ec2types.NetworkInterface) (
	described []*eni, made []ec2types.NetworkInterface, err error) {
	subnets, err := p.api.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{p.subnet}})
	if err != nil {
		return nil, nil, err
	}
	subnet := subnets.Subnets[0]
	var subnetIPv6 string
	if len(subnet.Ipv6CidrBlockAssociationSet) > 0 {
		subnetIPv6 = aws.ToString(subnet.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock)
	}
	trunks := p.o.Trunks(p.cluster.Account, p.cluster.Region)
	for range count {
		vlan, ok := freeVLAN(append(slices.Clone(there), made...))
		if !ok {
			return nil, made, errors.New("assigning vlan id, no VLAN ID of the trunk is free")
		}
		out, err := p.api.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
			Description: aws.String(branchDescription), SubnetId: &p.subnet, Groups: groups,
			TagSpecifications: p.tags(tag(vlanTag, strconv.Itoa(int(vlan))), tag(trunkTag, p.state.instance.trunk)),
		})
		if err != nil {
			return nil, made, fmt.Errorf("creating network interface, %w", err)
		}
		b := *out.NetworkInterface
		made = append(made, b)
		associated, err := trunks.AssociateTrunkInterface(ctx, &ec2.AssociateTrunkInterfaceInput{
			BranchInterfaceId: b.NetworkInterfaceId, TrunkInterfaceId: &p.state.instance.trunk, VlanId: &vlan})
		if err != nil {
			return nil, made, fmt.Errorf("associating branch to trunk, %w", err)
		}
		described = append(described, &eni{ID: *b.NetworkInterfaceId, MAC: aws.ToString(b.MacAddress),
			IPv4: aws.ToString(b.PrivateIpAddress), IPv6: aws.ToString(b.Ipv6Address), VLAN: vlan,
			SubnetCIDR: aws.ToString(subnet.CidrBlock), SubnetIPv6: subnetIPv6,
			AssociationID: aws.ToString(associated.InterfaceAssociation.AssociationId)})
	}
	return described, made, nil
}

// freeVLAN returns the lowest VLAN ID that none of the branches has, by their tags.
func freeVLAN(branches []ec2types.NetworkInterface) (int32, bool) {
	used := map[string]bool{}
	for _, b := range branches {
		for _, t := range b.TagSet {
			if aws.ToString(t.Key) == vlanTag {
				used[aws.ToString(t.Value)] = true
			}
		}
	}
	for vlan := int32(1); vlan <= maxVLAN; vlan++ {
		if !used[strconv.Itoa(int(vlan))] {
			return vlan, true
		}
	}
	return 0, false
}
