package nodegroup

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// unreachableAfter is the time for which an API server may be unreachable before that counts as an issue.
	unreachableAfter = 30 * time.Second
	// issueRecheck is the interval at which a group with issues is reconciled without an event.
	issueRecheck = time.Minute
	// failuresInARow is the number of consecutive launch failures with a lasting reason after which a creation is given
	// up.
	failuresInARow = 3
)

// checkHealth reports dependencies of the group that do not exist.
func (g *group) checkHealth(ctx context.Context) error {
	s := g.c.o.Store
	if _, err := record.Roles(s).Get(ctx, record.RoleKey(g.row.Account, g.roleName())); store.IgnoreNotFound(err) != nil {
		return err
	} else if err != nil {
		g.issues.add(ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeIamNodeRoleNotFound,
			Message: ptr(
				"We couldn't find the IAM role for your managed node group. You may be able to recreate an IAM role " +
					"with the same settings to recover."),
			ResourceIds: []string{g.row.NodeRoleARN},
		})
		g.blocked = true
	}
	if ids := g.missingSubnets(ctx); len(ids) > 0 {
		g.issues.add(ekstypes.Issue{
			Code:        ekstypes.NodegroupIssueCodeEc2SubnetNotFound,
			Message:     ptr("We couldn't find one or more of the subnets specified for your managed node group."),
			ResourceIds: ids,
		})
		g.blocked = true
	}
	plane, err := g.c.planes.Get(ctx, g.cluster.Key())
	if store.IgnoreNotFound(err) != nil {
		return err
	}
	if id := plane.Value.ClusterSecurityGroupID; id != "" {
		if _, err := record.SecurityGroups(s).Get(ctx, record.EC2Key(g.row.Account, g.row.Region, id)); store.IgnoreNotFound(
			err) != nil {
			return err
		} else if err != nil {
			g.issues.add(ekstypes.Issue{
				Code: ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound,
				Message: ptr(
					"We couldn't find the cluster security group for the cluster. You must recreate your cluster."),
				ResourceIds: []string{id},
			})
			g.blocked = true
		}
	}
	if g.server != nil {
		return nil
	}
	since, why := g.c.servers.Failing(g.cluster.Key())
	switch {
	case since.IsZero():
	case g.c.now().Sub(since) >= unreachableAfter:
		g.issues.add(ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeClusterUnreachable, ResourceIds: []string{g.row.Cluster},
			Message: ptr("Amazon EKS is unable to communicate with your Kubernetes cluster API server: " + why.Error()),
		})
	default:
		g.soon = earlierWait(g.soon, since.Add(unreachableAfter).Sub(g.c.now()))
	}
	return nil
}

// checkLaunches reports why the Auto Scaling group cannot launch its desired capacity.
func (g *group) checkLaunches(ctx context.Context) error {
	serving := int32(0)
	for _, m := range g.members {
		if isServing(m) {
			serving++
		}
	}
	if serving >= aws.ToInt32(g.asg.DesiredCapacity) {
		return nil
	}
	out, err := g.scaling.DescribeScalingActivities(ctx,
		&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: ptr(g.scalingName()),
			MaxRecords: aws.Int32(20)})
	if err != nil {
		return err
	}
	failures, lasting := 0, true
	for _, a := range out.Activities {
		if !strings.HasPrefix(aws.ToString(a.Description), "Launching") {
			continue
		}
		if a.StatusCode != astypes.ScalingActivityStatusCodeFailed {
			break
		}
		issue, passing := g.launchIssue(aws.ToString(a.StatusMessage))
		if failures == 0 {
			g.issues.add(issue)
		}
		failures++
		lasting = lasting && !passing
	}
	if failures >= failuresInARow && lasting || failures > 0 && g.c.now().Sub(g.row.CreatedAt) > g.c.o.JoinTimeout {
		g.failCreation()
	}
	return nil
}

// launchIssue returns the health issue of a failed launch; passing says that waiting may help.
func (g *group) launchIssue(text string) (issue ekstypes.Issue, passing bool) {
	issue = ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures,
		Message: ptr("Could not launch On-Demand Instances. " + text), ResourceIds: []string{g.scalingName()}}
	if g.isSpotCapacity() {
		issue.Message = ptr("Could not launch Spot Instances. " + text)
	}
	lower := strings.ToLower(text)
	has := func(words ...string) bool {
		for _, w := range words {
			if !strings.Contains(lower, w) {
				return false
			}
		}
		return true
	}
	switch {
	case has("not enough free addresses"), has("insufficient", "address"):
		issue.Code, issue.Message, passing = ekstypes.NodegroupIssueCodeInsufficientFreeAddresses,
			ptr("One or more of the subnets associated with your managed node group does not have enough available "+
				"IP addresses for new nodes. "+text), true
		issue.ResourceIds = nil
		for _, id := range g.row.SubnetIDs {
			if strings.Contains(text, id) {
				issue.ResourceIds = append(issue.ResourceIds, id)
			}
		}
		if issue.ResourceIds == nil {
			issue.ResourceIds = g.row.SubnetIDs
		}
	case has("limit"), has("you have requested more"):
		issue.Code, passing = ekstypes.NodegroupIssueCodeInstanceLimitExceeded, true
	case has("insufficientinstancecapacity"), has("capacity"), has("price"):
		passing = true
	case has("image id"), has("ami"), has("image", "does not exist"):
		if has("does not exist") || has("not exist") {
			issue.Code = ekstypes.NodegroupIssueCodeAmiIdNotFound
		}
	case has("subnet", "does not exist"):
		issue.Code, issue.ResourceIds = ekstypes.NodegroupIssueCodeEc2SubnetNotFound, g.row.SubnetIDs
	case has("security group", "does not exist"):
		issue.Code = ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound
	case has("instance profile"):
		issue.Code, issue.ResourceIds = ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound, []string{g.madeName()}
	case has("launch template"):
		issue.Code, issue.ResourceIds = ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound,
			[]string{g.state.LaunchTemplateID}
	}
	return issue, passing
}

// recordHealth records the health issues of a pass. A creation that failed keeps its issues.
func (g *group) recordHealth() {
	if g.blocked && g.asg == nil && !g.row.Deleting {
		// nothing comes of it as long as its owner does nothing, and a group that failed is only deleted
		g.failCreation()
	}
	if len(g.issues) == 0 && g.state.Failed && !g.row.Deleting {
		return
	}
	if is := []ekstypes.Issue(g.issues); !reflect.DeepEqual(is, g.state.Issues) && len(is)+len(g.state.Issues) > 0 {
		g.state.Issues = is
	}
	if len(g.issues) > 0 {
		g.soon = earlierWait(g.soon, issueRecheck)
	}
}
