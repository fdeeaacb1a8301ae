package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
)

// How long EKS is patient with node groups: tests and demonstrations have less time than the service.
const (
	joinTimeout  = "CORACLE_NODEGROUP_JOIN_TIMEOUT"  // for an instance to become a Ready node; 20m without it
	drainTimeout = "CORACLE_NODEGROUP_DRAIN_TIMEOUT" // for pods to leave a node; 15m without it
)

// nodegroups returns the controller of managed node groups.
func (d *daemon) nodegroups(planes *controlplane.Controller) (*nodegroup.Controller, error) {
	join, err := durationFrom(joinTimeout)
	if err != nil {
		return nil, err
	}
	drain, err := durationFrom(drainTimeout)
	if err != nil {
		return nil, err
	}
	config := func(account, region string) aws.Config {
		role := d.api.identity.ServiceRoleCredentials(account, nodegroup.ServiceLinkedRole, "EKS")
		return d.api.clientConfig(region, role)
	}
	return nodegroup.New(nodegroup.Options{
		Store: d.store, Config: d.clusterConfig(planes), JoinTimeout: join, DrainTimeout: drain, Log: d.log,
		EC2: func(account, region string) nodegroup.EC2 { return ec2.NewFromConfig(config(account, region)) },
		AutoScaling: func(account, region string) nodegroup.AutoScaling {
			return autoscaling.NewFromConfig(config(account, region))
		},
		IAM: func(account string) nodegroup.IAM { return iam.NewFromConfig(config(account, d.settings.Region)) },
		EKS: func(account, region string) nodegroup.EKS { return eks.NewFromConfig(config(account, region)) },
	}), nil
}

// durationFrom returns the duration in an environment variable; 0 without it.
func durationFrom(variable string) (time.Duration, error) {
	text := os.Getenv(variable)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s=%q is not a duration, such as 90s or 20m", variable, text)
	}
	return d, nil
}
