package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// pool is the addresses of a node's pods: secondary addresses of its network interfaces, as the VPC CNI plugin's ipamd
// has them, or in a cluster of IPv6 those of a prefix. It asks EC2 for a few more when it has none left (as with
// WARM_IP_TARGET; the plugin's default, a whole interface ahead, would take half of a subnet away from a thousand
// nodes), and keeps them until the instance goes.
type pool struct {
	c *Controller
	k *kubelet

	growing sync.Mutex // held while EC2 is asked

	mu     sync.Mutex
	loaded bool
	known  map[string]struct{} // every address of the pool
	free   []string            // the longest free first
	used   map[types.UID]string
}

// batch is the number of addresses that are requested at once.
const batch = 5

func (p *pool) init(c *Controller, k *kubelet) {
	p.c, p.k, p.known, p.used = c, k, map[string]struct{}{}, map[types.UID]string{}
}

// tryAllocate returns an address for the pod, if one is free.
func (p *pool) tryAllocate(uid types.UID) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if address, ok := p.used[uid]; ok {
		return address, true
	}
	if !p.loaded || len(p.free) == 0 {
		return "", false
	}
	address := p.free[0]
	p.free = p.free[1:]
	p.used[uid] = address
	return address, true
}

// allocate returns an address for the pod. It requests more addresses when none is free.
func (p *pool) allocate(ctx context.Context, uid types.UID) (string, error) {
	if address, ok := p.tryAllocate(uid); ok {
		return address, nil
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	if address, ok := p.tryAllocate(uid); ok {
		return address, nil // another has asked
	}
	interfaces := p.c.interfacesOf(ctx, p.k.key)
	p.loadAddresses(interfaces)
	if address, ok := p.tryAllocate(uid); ok {
		return address, nil
	}
	var more []string
	var err error
	if p.k.fleet.cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		more, err = p.fromPrefix(ctx, interfaces)
	} else {
		more, err = p.fromEC2(ctx, interfaces)
	}
	if err != nil {
		return "", err
	}
	p.add(more)
	if address, ok := p.tryAllocate(uid); ok {
		return address, nil
	}
	return "", errors.New("no available IP addresses")
}

// releaseAddress takes the pod's address back.
func (p *pool) releaseAddress(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if address, ok := p.used[uid]; ok {
		delete(p.used, uid)
		p.free = append(p.free, address)
	}
}

// reserve marks the addresses that the pod already has as used.
func (p *pool) reserve(uid types.UID, addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range addresses {
		p.used[uid] = a
		p.known[a] = struct{}{}
		p.free = slices.DeleteFunc(p.free, func(f string) bool { return f == a })
	}
}

func (p *pool) add(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range addresses {
		if _, ok := p.known[a]; !ok {
			p.known[a] = struct{}{}
			p.free = append(p.free, a)
		}
	}
}

// loadAddresses takes note of what the node has had before this daemon: the addresses of its interfaces, and which pods
// have them.
func (p *pool) loadAddresses(interfaces map[int32]record.NetworkInterface) {
	p.mu.Lock()
	loaded := p.loaded
	p.loaded = true
	p.mu.Unlock()
	if loaded {
		return
	}
	f := p.k.fleet
	f.mu.Lock()
	taken := map[types.UID][]string{}
	for _, pod := range f.pods {
		if pod.node == p.k.name && len(pod.address) > 0 {
			taken[pod.uid] = pod.address
		}
	}
	f.mu.Unlock()
	for uid, addresses := range taken {
		p.reserve(uid, addresses)
	}
	if f.cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		return
	}
	for _, n := range interfaces {
		p.add(n.PrivateIPs[1:])
	}
}

// fromEC2 asks for secondary addresses on an interface that has room for them, or on another one.
func (p *pool) fromEC2(ctx context.Context, interfaces map[int32]record.NetworkInterface) ([]string, error) {
	client := p.c.o.EC2(p.k.instance.Region, p.k.credentials(p.c))
	limit := p.k.kind.IPv4PerENI
	for device := int32(0); device < int32(p.k.kind.MaxENIs); device++ {
		n, ok := interfaces[device]
		if !ok {
			return p.fromNewInterface(ctx, client, interfaces[0], device, min(batch, limit-1))
		}
		free := limit - len(n.PrivateIPs) - len(n.IPv4Prefixes)
		if free <= 0 {
			continue
		}
		out, err := client.AssignPrivateIpAddresses(ctx, &ec2.AssignPrivateIpAddressesInput{
			NetworkInterfaceId: &n.ID, SecondaryPrivateIpAddressCount: aws.Int32(int32(min(batch, free))),
		})
		if err != nil {
			return nil, err
		}
		var got []string
		for _, a := range out.AssignedPrivateIpAddresses {
			got = append(got, aws.ToString(a.PrivateIpAddress))
		}
		return got, nil
	}
	return nil, fmt.Errorf("no available IP addresses: all %d network interfaces of %s are full", p.k.kind.MaxENIs,
		p.k.instance.ID)
}

// fromNewInterface attaches another interface, like the first one, with so many secondary addresses.
func (p *pool) fromNewInterface(ctx context.Context, client EC2, like record.NetworkInterface, device int32,
	count int) ([]string, error) {
	id := p.k.instance.ID
	made, err := client.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
		SubnetId: &like.SubnetID, Groups: like.SecurityGroupIDs, Description: aws.String("aws-K8S-" + id),
		SecondaryPrivateIpAddressCount: aws.Int32(int32(count)),
		// A daemon that dies before it attaches the interface finds it again.
		ClientToken: aws.String(fmt.Sprintf("%s-%d-%d", id, p.k.instance.Boot, device)),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeNetworkInterface,
			Tags: []ec2types.Tag{
				{Key: aws.String("cluster.k8s.amazonaws.com/name"), Value: &p.k.fleet.cluster.Name},
				{Key: aws.String("node.k8s.amazonaws.com/instance_id"), Value: &id},
			}}},
	})
	if err != nil {
		return nil, err
	}
	n := made.NetworkInterface
	attached, err := client.AttachNetworkInterface(ctx,
		&ec2.AttachNetworkInterfaceInput{NetworkInterfaceId: n.NetworkInterfaceId, InstanceId: &id,
			DeviceIndex: &device})
	if err != nil {
		return nil, err
	}
	_, err = client.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: n.NetworkInterfaceId,
		Attachment: &ec2types.NetworkInterfaceAttachmentChanges{AttachmentId: attached.AttachmentId,
			DeleteOnTermination: aws.Bool(true)},
	})
	if err != nil {
		return nil, err
	}
	var got []string
	for _, a := range n.PrivateIpAddresses {
		if !aws.ToBool(a.Primary) {
			got = append(got, aws.ToString(a.PrivateIpAddress))
		}
	}
	return got, nil
}

// fromPrefix takes addresses out of the /80 prefix of the first interface.
func (p *pool) fromPrefix(ctx context.Context, interfaces map[int32]record.NetworkInterface) ([]string, error) {
	first, ok := interfaces[0]
	if !ok {
		return nil, errors.New("the instance has no network interface")
	}
	prefixes := first.IPv6Prefixes
	if len(prefixes) == 0 {
		out, err := p.c.o.EC2(p.k.instance.Region, p.k.credentials(p.c)).AssignIpv6Addresses(ctx,
			&ec2.AssignIpv6AddressesInput{
				NetworkInterfaceId: &first.ID, Ipv6PrefixCount: aws.Int32(1),
			})
		if err != nil {
			return nil, err
		}
		prefixes = out.AssignedIpv6Prefixes
	}
	prefix, err := netip.ParsePrefix(prefixes[0])
	if err != nil {
		return nil, fmt.Errorf("the prefix of network interface %s: %w", first.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []string
	for a := prefix.Masked().Addr().Next(); len(got) < batch && prefix.Contains(a); a = a.Next() {
		if _, taken := p.known[a.String()]; !taken {
			got = append(got, a.String())
		}
	}
	return got, nil
}
