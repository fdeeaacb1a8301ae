package nodegroup

import (
	"errors"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
)

// problem is an error that the group's owner can do something about: it is shown as an issue instead of being logged.
type problem struct{ issue ekstypes.Issue }

func (p *problem) Error() string { return string(p.issue.Code) + ": " + *p.issue.Message }

// issues are the health issues of a group.
type issues []ekstypes.Issue

// add adds an issue, or adds its resources to an issue with the same code and message. Issues become errors of updates,
// too.
func (i *issues) add(issue ekstypes.Issue) {
	issue.Message = ptr(record.Reason(*issue.Message))
	for n, have := range *i {
		if have.Code == issue.Code && *have.Message == *issue.Message {
			for _, id := range issue.ResourceIds {
				if !slices.Contains(have.ResourceIds, id) {
					(*i)[n].ResourceIds = append(slices.Clone((*i)[n].ResourceIds), id)
				}
			}
			return
		}
	}
	*i = append(*i, issue)
}

// recordIssue records an error that the owner of the group can fix as a health issue, and returns any other error.
func (g *group) recordIssue(err error) error {
	if err == nil {
		return nil
	}
	var p *problem
	if errors.As(err, &p) {
		g.issues.add(p.issue)
		g.blocked = true
		return nil
	}
	issue := ekstypes.Issue{Message: ptr(apierror.Message(err)), ResourceIds: []string{g.row.Name}}
	switch apierror.Code(err) {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired":
		issue.Code = ekstypes.NodegroupIssueCodeAccessDenied
	case "LaunchTemplateLimitExceeded":
		issue.Code = ekstypes.NodegroupIssueCodeEc2LaunchTemplateMaxLimitExceeded
	case "VersionLimitExceeded":
		issue.Code = ekstypes.NodegroupIssueCodeEc2LaunchTemplateVersionMaxLimitExceeded
	case "LimitExceeded":
		issue.Code = ekstypes.NodegroupIssueCodeLimitExceeded
	case "InvalidSubnetID.NotFound":
		issue.Code = ekstypes.NodegroupIssueCodeEc2SubnetNotFound
	case "InvalidGroup.NotFound", "InvalidGroupId.Malformed":
		issue.Code = ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound
	default:
		return err
	}
	g.issues.add(issue)
	g.blocked = true
	return nil
}
