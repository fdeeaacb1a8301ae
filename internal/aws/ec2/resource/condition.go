package resource

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// MetadataConditions adds the condition keys about the metadata options of an instance.
func MetadataConditions(conditions map[string][]string, o record.InstanceMetadataOptions) {
	conditions["ec2:MetadataHttpEndpoint"] = []string{string(o.HTTPEndpoint)}
	conditions["ec2:MetadataHttpTokens"] = []string{string(o.HTTPTokens)}
	conditions["ec2:MetadataHttpPutResponseHopLimit"] = []string{Decimal(int(o.HTTPPutResponseHopLimit))}
	conditions["ec2:InstanceMetadataTags"] = []string{string(o.InstanceMetadataTags)}
}

// instanceConditions sets the condition keys of an instance that policies can use.
func (s *Records) instanceConditions(sc Scope, conditions map[string][]string, r record.Instance) {
	conditions["ec2:InstanceType"] = []string{string(r.InstanceType)}
	conditions["ec2:AvailabilityZone"] = []string{r.AvailabilityZone}
	conditions["ec2:Tenancy"] = []string{string(r.Tenancy)}
	conditions["ec2:RootDeviceType"] = []string{"ebs"}
	conditions["ec2:EbsOptimized"] = []string{strconv.FormatBool(r.EBSOptimized)}
	conditions["ec2:InstanceMarketType"] = []string{"on-demand"}
	if r.Lifecycle == types.InstanceLifecycleTypeSpot {
		conditions["ec2:InstanceMarketType"] = []string{"spot"}
	}
	if r.InstanceProfileARN != "" {
		conditions["ec2:InstanceProfile"] = []string{r.InstanceProfileARN}
	}
	if r.PlacementGroup != "" {
		conditions["ec2:PlacementGroup"] = []string{sc.ARN(types.ResourceTypePlacementGroup, r.PlacementGroup)}
	}
	MetadataConditions(conditions, r.Metadata)
}
