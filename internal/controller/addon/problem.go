package addon

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// problem is something that keeps an add-on from being as it should: an issue of its health.
type problem struct {
	issue ekstypes.AddonIssue
	// passing reports that it may well go by itself within seconds, so that it only counts once it has lasted.
	passing bool
}

func (p *problem) Error() string { return string(p.issue.Code) + ": " + *p.issue.Message }

// refused returns a problem with an object.
func refused(code ekstypes.AddonIssueCode, passing bool, o record.AddonObject, text string) *problem {
	return &problem{issueOf(code, text, o), passing}
}

func issueOf(code ekstypes.AddonIssueCode, text string, objects ...record.AddonObject) ekstypes.AddonIssue {
	text = record.Reason(text)
	issue := ekstypes.AddonIssue{Code: code, Message: &text}
	for _, o := range objects {
		issue.ResourceIds = append(issue.ResourceIds, resourceID(o))
	}
	return issue
}

// resourceID names an object as "kubectl -o name" does: "daemonset.apps/aws-node".
func resourceID(o record.AddonObject) string {
	kind := strings.ToLower(o.Kind)
	if group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + o.Name
}

// What admission says, of whichever kind: it is told from what RBAC says by its words alone.
var admission = regexp.MustCompile(
	`admission webhook ".*" denied the request|failed calling webhook|ValidatingAdmissionPolicy '.*' .*denied request|exceeded quota|violates PodSecurity`)

// problemOf makes a problem of what the API server answered about an object, and gives back any other error.
//
// The codes are those of EKS; its texts are the API server's own. A quota that is exceeded is refused by an admission
// plugin of the API server, so it is AdmissionRequestDenied, not AccessDenied, which is about the permissions of
// eks:addon-manager; so is a webhook that cannot be called, as on EKS. What the API server calls invalid is an object
// that a user created in a form that cannot be changed into EKS's: UnsupportedAddonModification.
func problemOf(o record.AddonObject, err error) error {
	var away *client.Unreachable
	if errors.As(err, &away) {
		return unreachableProblem(err)
	}
	if errors.Is(err, errNoKind) {
		return refused(ekstypes.AddonIssueCodeK8sResourceNotFound, false, o,
			record.Reason(fmt.Sprintf("%s: %v", resourceID(o), err)))
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	text := oneLine(status.ErrStatus.Message)
	switch code := status.ErrStatus.Code; {
	case conflictsOf(err) != nil:
		return refused(ekstypes.AddonIssueCodeConfigurationConflict, false, o, text)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return refused(ekstypes.AddonIssueCodeK8sResourceNotFound, true, o, text)
	case admission.MatchString(text):
		return refused(ekstypes.AddonIssueCodeAdmissionRequestDenied, code >= http.StatusInternalServerError, o, text)
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return refused(ekstypes.AddonIssueCodeAccessDenied, false, o, text)
	case code == http.StatusNotFound:
		return refused(ekstypes.AddonIssueCodeK8sResourceNotFound, false, o, text)
	case code == http.StatusUnprocessableEntity, code == http.StatusBadRequest:
		return refused(ekstypes.AddonIssueCodeUnsupportedAddonModification, false, o, text)
	default: // overload, an etcd that is away, a change in between
		return refused(ekstypes.AddonIssueCodeInternalFailure, true, o, text)
	}
}

// unreachableProblem returns the problem of an API server that does not answer. [addon.reconcile] adds the cluster to
// it.
func unreachableProblem(err error) *problem {
	return &problem{issueOf(ekstypes.AddonIssueCodeClusterUnreachable,
		"Amazon EKS is unable to communicate with your Kubernetes cluster API server: "+oneLine(err.Error())), true}
}

// oneLine returns a text of the API server on one line, as EKS shows it, cut to a bounded length.
func oneLine(s string) string { return strings.Join(strings.Fields(client.Cut(s)), " ") }

// details converts issues to errors of an update.
func details(issues []ekstypes.AddonIssue) []ekstypes.ErrorDetail {
	var all []ekstypes.ErrorDetail
	for _, i := range issues {
		code := ekstypes.ErrorCode(i.Code)
		if !slices.Contains(code.Values(), code) {
			code = ekstypes.ErrorCodeUnknown
		}
		all = append(all, ekstypes.ErrorDetail{ErrorCode: code, ErrorMessage: i.Message, ResourceIds: i.ResourceIds})
	}
	return all
}

// addonIssues converts the errors of an update to issues.
func addonIssues(errs []ekstypes.ErrorDetail) []ekstypes.AddonIssue {
	var all []ekstypes.AddonIssue
	for _, e := range errs {
		code := ekstypes.AddonIssueCode(e.ErrorCode)
		if !slices.Contains(code.Values(), code) {
			code = ekstypes.AddonIssueCodeInternalFailure
		}
		all = append(all, ekstypes.AddonIssue{Code: code, Message: e.ErrorMessage, ResourceIds: e.ResourceIds})
	}
	return all
}
