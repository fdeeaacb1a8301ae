package stack

import (
	"maps"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource/acm"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/autoscaling"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ec2"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ecr"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/efs"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/eks"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/elb"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/iam"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/kms"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/logs"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ssm"
	"github.com/coracle-eks/coracle/internal/store"
)

// services are the resource types of the services, a table each.
var services = []TypeTable{
	acm.Types, autoscaling.Types, ec2.Types, ecr.Types, efs.Types, eks.Types, elb.Types, iam.Types, kms.Types,
	logs.Types, ssm.Types,
}

// Types returns all resource types that stacks may contain. endpoint returns the URL under which those who signal wait
// conditions of a region reach the daemon.
func Types(s *store.Store, endpoint func(region string) string) TypeTable {
	all := Own(s, endpoint)
	for _, table := range services {
		maps.Copy(all, table)
	}
	return all
}
