package nodegroup

import (
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestFailedLaunchesAreIssues(t *testing.T) {
	t.Parallel()
	g := &group{row: record.Nodegroup{Name: "ng", ID: "1", SubnetIDs: []string{"subnet-1", "subnet-2"}},
		state: record.NodegroupState{LaunchTemplateID: "lt-1"}}
	const end = " Launching EC2 instance failed."
	for message, want := range map[string]struct {
		code     ekstypes.NodegroupIssueCode
		resource string
		passing  bool
	}{
		"There are not enough free addresses in subnet 'subnet-2' to satisfy the requested number of instances.": {
			ekstypes.NodegroupIssueCodeInsufficientFreeAddresses, "subnet-2", true},
		"You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket.": {
			ekstypes.NodegroupIssueCodeInstanceLimitExceeded, "eks-ng-1", true},
		"InsufficientInstanceCapacity - We currently do not have sufficient m5.large capacity in the Availability " +
			"Zone you requested (eu-west-1a).": {ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures, "eks-ng-1",
			true},
		"The image id '[ami-00000000000000000]' does not exist.": {ekstypes.NodegroupIssueCodeAmiIdNotFound, "eks-ng-1",
			false},
		"The security group 'sg-1' does not exist.": {ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound,
			"eks-ng-1", false},
		"The subnet ID 'subnet-1' does not exist.": {ekstypes.NodegroupIssueCodeEc2SubnetNotFound,
			"subnet-1", false},
		"Invalid IAM Instance Profile name.": {
			ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound, "eks-1", false},
		"You must use a valid fully-formed launch template. The specified launch template, with template ID lt-1, " +
			"does not exist.": {ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound, "lt-1", false},
		"UnauthorizedOperation - You are not authorized to perform this operation.": {
			ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures, "eks-ng-1", false},
		"Your Spot request price of 0.001 is lower than the minimum required Spot request fulfillment price of 0.05.": {
			ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures, "eks-ng-1", true},
	} {
		issue, passing := g.launchIssue(message + end)
		if issue.Code != want.code || issue.ResourceIds[0] != want.resource || passing != want.passing {
			t.Errorf("%s: %s of %v, passing %v; want %+v", message, issue.Code, issue.ResourceIds, passing, want)
		}
	}
}
