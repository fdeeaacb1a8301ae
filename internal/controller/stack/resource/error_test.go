package resource_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// failure returns an error as the SDK returns those of a service.
func failure(service, operation, code, message string, status int) error {
	return &smithy.OperationError{ServiceID: service, OperationName: operation, Err: &awshttp.ResponseError{
		RequestID: "3f0c", ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
			Err:      &smithy.GenericAPIError{Code: code, Message: message},
		}}}
}

func TestErrorsOfServicesHaveTheClassOfTheirCode(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		operation, code string
		status          int
		want            resource.ErrorCode
		retryable       bool
	}{
		{"CreateVpc", "VpcLimitExceeded", 400, resource.ServiceLimitExceeded, false},
		{"CreateVpc", "UnauthorizedOperation", 403, resource.AccessDenied, false},
		{"CreateVpc", "InvalidVpc.Range", 400, resource.InvalidRequest, false},
		{"DescribeVpcs", "InvalidVpcID.NotFound", 400, resource.NotFound, false},
		{"DeleteVpc", "DependencyViolation", 400, resource.ResourceConflict, true},
		{"DeletePlacementGroup", "InvalidPlacementGroup.InUse", 400, resource.ResourceConflict, true},
		{"CreateSecurityGroup", "InvalidGroup.Duplicate", 400, resource.AlreadyExists, false},
		{"CreateLaunchTemplate", "InvalidLaunchTemplateName.AlreadyExistsException", 400, resource.AlreadyExists, false},
		{"DescribeLaunchTemplates", "InvalidLaunchTemplateId.NotFound", 400, resource.NotFound, false},
		{"RunInstances", "RequestLimitExceeded", 503, resource.Throttling, true},
		{"CreateRole", "EntityAlreadyExists", 409, resource.AlreadyExists, false},
		{"CreateRole", "LimitExceeded", 409, resource.ServiceLimitExceeded, false},
		{"GetRole", "NoSuchEntity", 404, resource.NotFound, false},
		{"DeleteRole", "DeleteConflict", 409, resource.ResourceConflict, true},
		{"CreateCluster", "ResourceInUseException", 409, resource.AlreadyExists, false},
		{"DeleteCluster", "ResourceInUseException", 409, resource.ResourceConflict, true},
		{"DescribeCluster", "ResourceNotFoundException", 404, resource.NotFound, false},
		{"CreateCluster", "ResourceLimitExceededException", 400, resource.ServiceLimitExceeded, false},
		{"CreateCluster", "InvalidParameterException", 400, resource.InvalidRequest, false},
		{"CreateRepository", "RepositoryAlreadyExistsException", 400, resource.AlreadyExists, false},
		{"PutParameter", "ParameterAlreadyExists", 400, resource.AlreadyExists, false},
		{"PutParameter", "ParameterNotFound", 400, resource.NotFound, false},
		{"CreateAutoScalingGroup", "AlreadyExists", 400, resource.AlreadyExists, false},
		{"CreateAutoScalingGroup", "ValidationError", 400, resource.InvalidRequest, false},
		{"CreateKey", "Weird", 500, resource.ServiceInternalError, true},
		{"CreateKey", "Weird", 400, resource.GeneralServiceException, false},
	} {
		err := fmt.Errorf("create: %w", failure("EC2", row.operation, row.code, "no", row.status))
		if got := resource.Classify(err); got != row.want {
			t.Errorf("%s of %s is %s, want %s", row.code, row.operation, got, row.want)
		}
		if got := resource.Retryable(err); got != row.retryable {
			t.Errorf("%s of %s is retryable: %t, want %t", row.code, row.operation, got, row.retryable)
		}
	}
}

func TestErrorsWithoutServiceHaveAClass(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		want resource.ErrorCode
	}{
		{fmt.Errorf("find: %w", resource.ErrNotFound), resource.NotFound},
		{resource.ErrReplace, resource.NotUpdatable},
		{resource.Errorf(resource.NotStabilized, "gone"), resource.NotStabilized},
		{&resource.Error{Code: resource.AlreadyExists, Err: failure("EKS", "x", "Y", "z", 400)}, resource.AlreadyExists},
		{context.DeadlineExceeded, resource.NetworkFailure},
		{&smithy.OperationError{ServiceID: "EC2", OperationName: "CreateVpc", Err: errors.New("connection refused")},
			resource.NetworkFailure},
		{&smithy.OperationError{ServiceID: "EC2", OperationName: "CreateVpc", Err: &smithy.InvalidParamsError{}},
			resource.InvalidRequest},
		{errors.New("a defect"), resource.InternalFailure},
	} {
		if got := resource.Classify(row.err); got != row.want {
			t.Errorf("%v is %s, want %s", row.err, got, row.want)
		}
	}
}

func TestReasonHasTheFormOfAWS(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		want string
	}{
		{failure("IAM", "CreateRole", "EntityAlreadyExists", "Role with name a already exists.", 409),
			`Resource handler returned message: "Role with name a already exists. (Service: Iam, Status Code: 409, ` +
				`Request ID: 3f0c)" (RequestToken: t1, HandlerErrorCode: AlreadyExists)`},
		{failure("Auto Scaling", "CreateAutoScalingGroup", "ValidationError", "No.", 400),
			`Resource handler returned message: "No. (Service: AutoScaling, Status Code: 400, Request ID: 3f0c)" ` +
				`(RequestToken: t1, HandlerErrorCode: InvalidRequest)`},
		{resource.Errorf(resource.NotUpdatable, "property A cannot be updated"),
			`Resource handler returned message: "property A cannot be updated" (RequestToken: t1, ` +
				`HandlerErrorCode: NotUpdatable)`},
	} {
		if got := resource.Reason(row.err, "t1"); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}
