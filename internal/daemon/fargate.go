package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/aws/ec2/instance"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/controller/fargate"
	"github.com/coracle-eks/coracle/internal/fields"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// fargateTimeout is the environment variable for the time that the machine of a Fargate pod may take to become a Ready
// node; 10m without it.
const fargateTimeout = "CORACLE_FARGATE_TIMEOUT"

// fargateVCPUs is the environment variable for the quota of virtual CPUs of an account's Fargate pods in a region, as
// Service Quotas raises it on AWS; 1000 without it.
const fargateVCPUs = "CORACLE_FARGATE_VCPUS"

// newFargate returns the controller of Fargate profiles and their pods.
func (d *daemon) newFargate(planes *controlplane.Controller) (*fargate.Controller, error) {
	timeout, err := durationFrom(fargateTimeout)
	if err != nil {
		return nil, err
	}
	vcpus, err := quotaOf(fargateVCPUs, "vCPUs of Fargate pods")
	if err != nil {
		return nil, err
	}
	config := func(account, region string) aws.Config {
		role := d.api.identity.ServiceRoleCredentials(account, fargate.ServiceLinkedRole, "EKS")
		return d.api.clientConfig(region, role)
	}
	return fargate.New(fargate.Options{
		Store: d.store, Config: planes.Config, ProvisionTimeout: timeout, Log: d.log,
		VCPUQuota: min(int64(vcpus), 1<<32),
		EC2:       func(account, region string) fargate.EC2 { return ec2.NewFromConfig(config(account, region)) },
		EKS:       func(account, region string) fargate.EKS { return eks.NewFromConfig(config(account, region)) },
		Machines:  fargateMachines{store: d.store, ec2: instance.NewFargate(d.api.ec2.Instances)},
		Trusts:    d.trustsFargate,
		Webhook:   d.fargateConfiguration,
	}), nil
}

// trustsFargate reports whether the machines of a profile get credentials of its pod execution role.
func (d *daemon) trustsFargate(ctx context.Context, p record.FargateProfile) (bool, error) {
	_, err := d.api.identity.TrustedRole(ctx, p.PodExecutionRoleARN, fargatePrincipal, p.ARN())
	if errors.Is(err, identity.ErrNotTrusted) {
		return false, nil
	}
	return err == nil, err
}

// fargateMachines makes the machines of Fargate pods through EC2, for the controller, which knows no service.
type fargateMachines struct {
	store *store.Store
	ec2   instance.Fargate
}

// Launch makes the machine with the kubelet of the version that the cluster's control plane serves.
func (m fargateMachines) Launch(ctx context.Context, l fargate.Launch) (
	record.Instance, record.NetworkInterface, error) {
	plane, err := record.ControlPlanes(m.store).Get(ctx, record.ClusterKey(l.Account, l.Region, l.Machine.Cluster))
	if err != nil {
		return record.Instance{}, record.NetworkInterface{}, err
	}
	return m.ec2.Launch(ctx, instance.FargateLaunch{
		Account: l.Account, Region: l.Region, SubnetID: l.SubnetID, SecurityGroupIDs: l.SecurityGroupIDs,
		KubernetesVersion: plane.Value.Version, Machine: l.Machine, IPv6: l.IPv6,
		NodeConfig: l.NodeConfig,
	})
}

// Terminate ends a machine.
func (m fargateMachines) Terminate(ctx context.Context, account, region, instanceID string) error {
	return m.ec2.Terminate(ctx, account, region, instanceID)
}

// PatchFargate has Fargate pods leave their machines.
func (c *commands) PatchFargate(ctx context.Context, q admin.PatchRequest) (admin.Patched, error) {
	cluster, err := c.FindCluster(ctx, fields.Question{Account: q.Account, Region: q.Region, Cluster: q.Cluster})
	if err != nil {
		return admin.Patched{}, err
	}
	if q.Profile != "" {
		_, err := record.FargateProfiles(c.d.store).Get(ctx, record.FargateProfileKey(cluster.Account, cluster.Region,
			cluster.Name, q.Profile))
		if errors.Is(err, store.ErrNotFound) {
			return admin.Patched{}, &admin.Refused{
				Reason: "cluster " + cluster.Name + " has no Fargate profile " + q.Profile +
					": aws eks list-fargate-profiles --cluster-name " + cluster.Name,
			}
		}
		if err != nil {
			return admin.Patched{}, err
		}
	}
	deadline := max(0, q.Deadline)
	n, err := c.d.clusters.fargate.Patch(ctx, cluster, q.Profile, deadline)
	return admin.Patched{Cluster: cluster.Name, Pods: n, Until: time.Now().UTC().Add(deadline)}, err
}
