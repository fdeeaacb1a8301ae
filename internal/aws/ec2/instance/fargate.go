package instance

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Fargate launches and terminates the machines of Fargate pods. They are instances that belong to Amazon: the account
// sees of them the network interface in its subnet, and no operation finds the instance or its volume. The controller
// internal/controller/fargate calls it, because only this package writes these records.
type Fargate struct{ s *Service }

// NewFargate returns the machines of Fargate pods over the instances of a service.
func NewFargate(s *Service) Fargate { return Fargate{s} }

// FargateLaunch is the launch of the machine of a Fargate pod.
type FargateLaunch struct {
	Account string
	Region  string
	// SubnetID is the subnet of its network interface, which is in the availability zone of the machine.
	SubnetID string
	// SecurityGroupIDs are those of its network interface, at most five of the subnet's VPC.
	SecurityGroupIDs []string
	// KubernetesVersion is the minor version of its kubelet, "1.35": one that the control plane serves.
	KubernetesVersion string
	// Machine is the machine. The launch sets its NodeName, and its NodeConfig by NodeConfig.
	Machine record.FargateMachine
	// IPv6 gives the node an IPv6 address as its own, as those of a cluster of that IP family have.
	IPv6 bool
	// NodeConfig returns the configuration of the node for its guest, JSON of guest/fargate.Config, at most 64 KiB. It may
	// be called more than once.
	NodeConfig func(address, nodeName, zone string) ([]byte, error)
}

const (
	// fargateRequester is the requester ID of network interfaces of Fargate, and fargateOwner the owner of what they are
	// attached to. No account and no principal has such an ID.
	fargateRequester = "amazon-eks-fargate"
	fargateOwner     = "amazon-aws"
	// fargateSystem is the storage, in GiB, that the system of a machine has beside the pod: its file system, the state of
	// the kubelet and containerd, and its logs.
	fargateSystem = 2
	fargateDevice = "/dev/xvda"
	// maxFargateConfig is the maximum size of a NodeConfig in bytes: it is part of the instance's record.
	maxFargateConfig = 64 << 10
)

// Launch launches the machine of a Fargate pod, or returns the one that was launched for the same capacity before, as
// it is now: the network interface of one that has ended may be gone, and is empty then. Errors are those of the EC2
// API, such as InsufficientFreeAddressesInSubnet.
func (f Fargate) Launch(ctx context.Context, l FargateLaunch) (record.Instance, record.NetworkInterface, error) {
	sc := resource.Scope{Context: ctx, Account: l.Account, Region: l.Region}
	if l.Machine.Capacity == "" {
		return record.Instance{}, record.NetworkInterface{}, errors.New("launch a Fargate machine: it has no capacity")
	}
	image, err := fargateImage(l.Region, l.KubernetesVersion)
	if err != nil {
		return record.Instance{}, record.NetworkInterface{}, err
	}
	var launched record.Instance
	var ni record.NetworkInterface
	prior := false
	err = f.s.CommitPlan(sc, nil, func(c *resource.Change) (err error) {
		id := resource.NewID(c.Instances.Prefix)
		// Requests have no client tokens under this prefix: those of RunInstances name reservations.
		existing, err := c.CheckClientToken(&l.Machine.Capacity, c.Instances.Naming, id,
			&struct{ Capacity string }{l.Machine.Capacity})
		if err != nil {
			return err
		}
		if prior = existing != ""; prior {
			launched.ID = existing
			return nil
		}
		launched, ni, err = planFargate(c, l, id, image)
		return err
	})
	if err != nil || !prior {
		return launched, ni, err
	}
	row, err := f.s.Instances.WithHidden().Get(sc, launched.ID)
	if err != nil {
		return record.Instance{}, record.NetworkInterface{}, err
	}
	attached, err := f.s.InterfacesOf(sc, launched.ID)
	if err == nil && len(attached) > 0 {
		ni = attached[0]
	}
	return row.Value, ni, err
}

// fargateImage returns the newest image of EKS with Amazon Linux 2023 of a Kubernetes version, for processors of this
// host: a machine of Fargate is no type of instance that its owner chooses for an architecture.
func fargateImage(region, version string) (ami.Image, error) {
	architecture := "x86_64"
	if runtime.GOARCH == "arm64" {
		architecture = "arm64"
	}
	image, ok := ami.ByParameter(region, "/aws/service/eks/optimized-ami/"+version+"/amazon-linux-2023/"+architecture+
		"/standard/recommended")
	if !ok {
		return image, fmt.Errorf("launch a Fargate machine: there is no node image of Kubernetes %q for %s in %s", version,
			architecture, region)
	}
	return image, nil
}

// maxFargateStorage is more than Fargate gives a pod, in GiB.
const maxFargateStorage = 1024

// planFargate adds the instance of a Fargate machine with its network interface and its volume to the change.
func planFargate(c *resource.Change, l FargateLaunch, id string, image ami.Image) (
	record.Instance, record.NetworkInterface, error) {
	subnet, err := c.Subnets.GetRecord(c.Scope, &l.SubnetID)
	if err != nil {
		return record.Instance{}, record.NetworkInterface{}, err
	}
	ni, err := networkinterface.CreateManaged(c, networkinterface.Managed{
		SubnetID: subnet.ID, Type: types.NetworkInterfaceTypeInterface, RequesterID: fargateRequester,
		SecurityGroupIDs: l.SecurityGroupIDs, IPv6: l.IPv6 || subnet.AssignIPv6AddressOnCreation,
		InstanceID: id, InstanceOwnerID: fargateOwner,
	})
	if err != nil {
		return record.Instance{}, ni, err
	}
	machine := l.Machine
	machine.NodeName = fargatenode.NamePrefix + networkinterface.PrivateDNSName(c.Region, ni.PrivateIPs[0])
	address := ni.PrivateIPs[0]
	if l.IPv6 {
		address = ni.IPv6IPs[0]
	}
	machine.NodeConfig, err = l.NodeConfig(address, machine.NodeName, subnet.AvailabilityZone)
	if err == nil && len(machine.NodeConfig) > maxFargateConfig {
		// An error of the API, as others of a launch: the pod's users are told of it.
		err = resource.Invalid("The configuration of the node, with the pod's volumes of NFS and the namespace's and the "+
			"pod's metadata for logging, has %d bytes, which are more than %d.", len(machine.NodeConfig), maxFargateConfig)
	}
	if err != nil {
		return record.Instance{}, ni, fmt.Errorf("configure the node of a Fargate machine: %w", err)
	}
	if machine.Storage < 1 || machine.Storage > maxFargateStorage {
		return record.Instance{}, ni, fmt.Errorf("the %d GiB of a Fargate machine are not between 1 and %d",
			machine.Storage, maxFargateStorage)
	}
	now := c.Now().UTC()
	v := record.Volume{
		EC2Resource:      c.NewResource(resource.NewID(c.Volumes.Prefix), nil),
		AvailabilityZone: subnet.AvailabilityZone, Size: int32(machine.Storage) + fargateSystem, //nolint:gosec // bounded
		Type: types.VolumeTypeGp3, IOPS: 3000, Throughput: 125,
		InstanceID: id, Diskless: c.DisklessRoots, OfImage: true, Fargate: true,
	}
	c.Volumes.CreateRecord(c, v)
	r := record.Instance{
		EC2Resource:      c.NewResource(id, &machine.Capacity),
		ReservationID:    resource.NewID(reservationNames.Prefix),
		RequesterID:      fargateRequester,
		ImageID:          image.ID,
		AvailabilityZone: subnet.AvailabilityZone,
		VPCID:            subnet.VPCID,
		SubnetID:         subnet.ID,
		Metadata: record.InstanceMetadataOptions{
			HTTPEndpoint: types.InstanceMetadataEndpointStateEnabled, HTTPTokens: types.HttpTokensStateRequired,
			HTTPPutResponseHopLimit: 1, InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled,
			HTTPProtocolIPv6: types.InstanceMetadataProtocolStateDisabled,
		},
		HostnameType: types.HostnameTypeIpName,
		Tenancy:      types.TenancyDefault,
		BlockDevices: []record.InstanceBlockDevice{{
			DeviceName: fargateDevice, VolumeID: v.ID, DeleteOnTermination: true, AttachedAt: now, Root: true,
		}},
		ShutdownBehavior: types.ShutdownBehaviorTerminate,
		AutoRecovery:     types.InstanceAutoRecoveryStateDisabled,
		LaunchTime:       now,
		Wanted:           types.InstanceStateNameRunning,
		Boot:             1,
		WantedSince:      now,
		Fargate:          &machine,
	}
	c.Instances.CreateRecord(c, r)
	return r, ni, nil
}

// Terminate requests the end of the machine of a Fargate pod: its network interface, its volume and its records go once
// the host has ended it. There is nothing to do for one that is gone.
func (f Fargate) Terminate(ctx context.Context, account, region, instanceID string) error {
	sc := resource.Scope{Context: ctx, Account: account, Region: region}
	return f.s.CommitPlan(sc, nil, func(c *resource.Change) error {
		machines := c.Instances.WithHidden()
		row, err := machines.Find(sc, instanceID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.Value.Fargate == nil:
			return c.Instances.Missing(instanceID)
		case row.Value.Wanted == types.InstanceStateNameTerminated:
			return nil
		}
		return machines.UpdateRecord(c, instanceID, func(r *record.Instance) error {
			Terminate(c, r, "Server.FargatePodEnded", "The pod has ended", "Server.FargatePodEnded")
			return nil
		})
	})
}
