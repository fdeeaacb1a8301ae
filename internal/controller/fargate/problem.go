package fargate

import (
	"errors"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// problem is an error that the profile's owner can do something about: it is shown as an issue instead of being logged.
type problem struct {
	issue ekstypes.FargateProfileIssue
	final bool // a creation does not succeed any more
}

func (p *problem) Error() string { return string(p.issue.Code) + ": " + *p.issue.Message }

func newProblem(code ekstypes.FargateProfileIssueCode, final bool, message string, resources ...string) error {
	message = client.Cut(message)
	return &problem{ekstypes.FargateProfileIssue{Code: code, Message: &message, ResourceIds: resources}, final}
}

// asProblem returns the problem that an error is to the profile's owner; false for one that is to be logged.
func asProblem(err error, profile string) (*problem, bool) {
	var p *problem
	if errors.As(err, &p) {
		return p, true
	}
	if client.IsRefusal(err) {
		err = newProblem(ekstypes.FargateProfileIssueCodeAccessDenied, false, err.Error(), profile)
		return p, errors.As(err, &p)
	}
	switch apierror.Code(err) {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		err = newProblem(ekstypes.FargateProfileIssueCodeAccessDenied, true, apierror.Message(err), profile)
		return p, errors.As(err, &p)
	}
	return nil, false
}
