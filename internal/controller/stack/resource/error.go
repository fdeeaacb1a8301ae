package resource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// ErrNotFound tells that a resource does not exist, or exists no more.
var ErrNotFound = errors.New("resource does not exist")

// ErrReplace tells that an update is not possible in place.
var ErrReplace = errors.New("the update requires a replacement of the resource")

// ErrNothingMade tells that a Create was refused, and that no earlier call for it has made anything either.
var ErrNothingMade = errors.New("nothing was made")

// ErrPending tells that a step of a table has begun something that it waits for.
var ErrPending = errors.New("the resource is not stable yet")

// ErrorCode is the class of an error, as CloudFormation shows it in events:
// https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-test-contract-errors.html
type ErrorCode string

// The classes of errors.
const (
	NotUpdatable            ErrorCode = "NotUpdatable"
	InvalidRequest          ErrorCode = "InvalidRequest"
	AccessDenied            ErrorCode = "AccessDenied"
	InvalidCredentials      ErrorCode = "InvalidCredentials"
	AlreadyExists           ErrorCode = "AlreadyExists"
	NotFound                ErrorCode = "NotFound"
	ResourceConflict        ErrorCode = "ResourceConflict"
	Throttling              ErrorCode = "Throttling"
	ServiceLimitExceeded    ErrorCode = "ServiceLimitExceeded"
	NotStabilized           ErrorCode = "NotStabilized"
	GeneralServiceException ErrorCode = "GeneralServiceException"
	ServiceInternalError    ErrorCode = "ServiceInternalError"
	NetworkFailure          ErrorCode = "NetworkFailure"
	InternalFailure         ErrorCode = "InternalFailure"
	UnsupportedTarget       ErrorCode = "UnsupportedTarget"
)

// Error is an error of a handler itself, or one of a service that the handler knows to be of another class than its
// code tells.
type Error struct {
	Code    ErrorCode
	Message string // what users see; that of Err if empty
	Err     error
}

func (e *Error) Error() string {
	switch {
	case e.Message != "" && e.Err != nil:
		return e.Message + ": " + e.Err.Error()
	case e.Err != nil:
		return e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of a handler.
func Errorf(code ErrorCode, format string, arguments ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// exactCodes are the API errors whose class does not follow from the form of their code.
var exactCodes = map[string]ErrorCode{
	"UnauthorizedOperation": AccessDenied, "AccessDenied": AccessDenied, "AccessDeniedException": AccessDenied,
	"UnauthorizedAccess": AccessDenied, "NotAuthorized": AccessDenied,
	"OptInRequired": AccessDenied, "AuthFailure": AccessDenied,

	"ExpiredToken": InvalidCredentials, "ExpiredTokenException": InvalidCredentials,
	"InvalidClientTokenId": InvalidCredentials, "UnrecognizedClientException": InvalidCredentials,
	"SignatureDoesNotMatch": InvalidCredentials, "IncompleteSignature": InvalidCredentials,

	"NoSuchEntity": NotFound, "NotFoundException": NotFound,
	"InvalidPlacementGroup.Unknown": NotFound,
	"EntityAlreadyExists":           AlreadyExists, "Resource.AlreadyAssociated": AlreadyExists,
	"InvalidPermission.Duplicate": AlreadyExists, "AlreadyExists": AlreadyExists, "DuplicateRequest": AlreadyExists,

	"DependencyViolation": ResourceConflict, "IncorrectState": ResourceConflict, "DeleteConflict": ResourceConflict,
	"IncorrectInstanceState": ResourceConflict, "ConcurrentModification": ResourceConflict,
	"ConcurrentModificationException": ResourceConflict, "ResourceInUse": ResourceConflict,
	"ResourceInUseException": ResourceConflict, "ResourceContention": ResourceConflict,
	"VolumeInUse":               ResourceConflict,
	"ScalingActivityInProgress": ResourceConflict, "OperationAbortedException": ResourceConflict,
	"OperationInProgress": ResourceConflict, "ConflictException": ResourceConflict,
	"EntityTemporarilyUnmodifiable": ResourceConflict, "IncorrectStateException": ResourceConflict,
	"KMSInvalidStateException": ResourceConflict,
	"FileSystemInUse":          ResourceConflict, "MountTargetConflict": ResourceConflict,
	"IpAddressInUse":                    ResourceConflict,
	"IncorrectFileSystemLifeCycleState": ResourceConflict, "IncorrectMountTargetState": ResourceConflict,

	"Throttling": Throttling, "ThrottlingException": Throttling, "RequestLimitExceeded": Throttling,
	"TooManyRequestsException": Throttling, "RequestThrottled": Throttling, "SlowDown": Throttling,
	"RateExceeded": Throttling, "Client.RequestLimitExceeded": Throttling,

	"MaxSpotInstanceCountExceeded": ServiceLimitExceeded, "InsufficientFreeAddressesInSubnet": ServiceLimitExceeded,
	"InsufficientInstanceCapacity": ServiceLimitExceeded, "TagLimitExceeded": ServiceLimitExceeded,
	"VcpuLimitExceeded": ServiceLimitExceeded, "TooManyTagsException": ServiceLimitExceeded,
	"NoFreeAddressesInSubnet": ServiceLimitExceeded,

	"InternalError": ServiceInternalError, "InternalFailure": ServiceInternalError,
	"InternalServerError": ServiceInternalError, "InternalServerException": ServiceInternalError,
	"ServerException": ServiceInternalError, "ServiceFailure": ServiceInternalError,
	"ServiceUnavailable": ServiceInternalError, "Unavailable": ServiceInternalError,
	"ServiceUnavailableException": ServiceInternalError, "ServiceFailureException": ServiceInternalError,

	"ValidationError": InvalidRequest, "ValidationException": InvalidRequest, "MissingParameter": InvalidRequest,
	"MalformedPolicyDocument": InvalidRequest, "UnmodifiableEntity": InvalidRequest,
	"UnsupportedOperation": InvalidRequest, "Unsupported": InvalidRequest, "UnknownParameter": InvalidRequest,
	"IdempotentParameterMismatch": InvalidRequest, "NotImplemented": InvalidRequest, "BadRequest": InvalidRequest,
	"DuplicateTagKeys": InvalidRequest, "OperationNotPermitted": InvalidRequest, "IncompatibleProtocols": InvalidRequest,
	"UnsupportedProtocol": InvalidRequest, "UnsupportedCertificate": InvalidRequest,
	"TargetGroupAssociationLimit": ServiceLimitExceeded, "PriorityInUse": AlreadyExists,
	"AvailabilityZonesMismatch": InvalidRequest, "UnsupportedAvailabilityZone": InvalidRequest,
}

// Classify returns the class of an error.
func Classify(err error) ErrorCode {
	var own *Error
	if errors.As(err, &own) {
		return own.Code
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return NotFound
	case errors.Is(err, ErrReplace):
		return NotUpdatable
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return classifyCode(operationOf(err), api.ErrorCode(), statusOf(err))
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) {
		return NetworkFailure
	}
	var send *smithy.OperationError
	if errors.As(err, &send) && statusOf(err) == 0 {
		var parameters *smithy.InvalidParamsError
		if errors.As(err, &parameters) {
			return InvalidRequest
		}
		return NetworkFailure
	}
	return InternalFailure
}

func classifyCode(operation, code string, status int) ErrorCode {
	if code == "ResourceInUseException" && strings.HasPrefix(operation, "Create") {
		return AlreadyExists // EKS: the name is in use
	}
	if class, ok := exactCodes[code]; ok {
		return class
	}
	switch {
	case hasAnySuffix(code, ".NotFound", "NotFound", "NotFoundException", ".NotFoundException", "NotFoundFault",
		"NoSuchEntityException"):
		return NotFound
	case strings.HasPrefix(code, "Duplicate"), hasAnySuffix(code, ".Duplicate", "AlreadyExists",
		"AlreadyExistsException", "AlreadyExistsFault", ".AlreadyExistsException", "AlreadyExistsExceptions", "Exists"):
		return AlreadyExists
	case hasAnySuffix(code, ".InUse", "InUseException", "InUseFault"):
		return ResourceConflict
	case strings.Contains(code, "LimitExceeded"), strings.Contains(code, "QuotaExceeded"),
		strings.Contains(code, "LimitReached"), strings.HasPrefix(code, "TooMany"):
		return ServiceLimitExceeded
	case strings.HasPrefix(code, "Throttl"):
		return Throttling
	case strings.HasPrefix(code, "Invalid"), strings.HasPrefix(code, "Missing"), strings.HasPrefix(code, "Malformed"),
		hasAnySuffix(code, "ValidationException", "InvalidException"):
		return InvalidRequest
	case status >= 500:
		return ServiceInternalError
	}
	return GeneralServiceException
}

func hasAnySuffix(text string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(text, suffix) })
}

// Retryable reports whether the same call may succeed a little later: the service was busy or could not be reached, or
// another resource, which may be about to change or to go, is in the way. The caller bounds how often it tries.
func Retryable(err error) bool {
	switch Classify(err) {
	case Throttling, ServiceInternalError, NetworkFailure, ResourceConflict:
		return true
	}
	return false
}

// IsRefusal reports whether an error tells that the call has made nothing.
func IsRefusal(err error) bool {
	if err == nil {
		return false
	}
	switch Classify(err) {
	case AccessDenied, InvalidCredentials, InvalidRequest, AlreadyExists, NotFound, ServiceLimitExceeded, NotUpdatable:
		return true
	}
	return false
}

// IsNotFound reports whether an error tells that what was asked for does not exist.
func IsNotFound(err error) bool { return err != nil && Classify(err) == NotFound }

// HasCode reports whether an error is one of a service with one of the codes.
func HasCode(err error, codes ...string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// Reason returns what the event of a failed resource says, in the form of AWS.
func Reason(err error, token string) string {
	return fmt.Sprintf("Resource handler returned message: %q (RequestToken: %s, HandlerErrorCode: %s)",
		messageOf(err), token, Classify(err))
}

// Problem returns the message of an error without what differs from request to request.
func Problem(err error) string {
	var own *Error
	if errors.As(err, &own) && own.Message != "" {
		return own.Message
	}
	var api smithy.APIError
	switch {
	case !errors.As(err, &api):
		return err.Error()
	case api.ErrorMessage() == "":
		return api.ErrorCode()
	}
	return api.ErrorMessage()
}

// messageOf returns an error of a service as AWS's handlers, which use the SDK for Java, show it.
func messageOf(err error) string {
	text := Problem(err)
	var own *Error
	if errors.As(err, &own) && own.Message != "" {
		return text
	}
	var operation *smithy.OperationError
	var response *awshttp.ResponseError
	if !errors.As(err, &operation) || !errors.As(err, &response) {
		return text
	}
	service := strings.ReplaceAll(operation.Service(), " ", "")
	if len(service) == 3 { // "Ec2", "Iam": the SDK for Java writes abbreviations as words
		service = service[:1] + strings.ToLower(service[1:])
	}
	return fmt.Sprintf("%s (Service: %s, Status Code: %d, Request ID: %s)", text, service,
		response.HTTPStatusCode(), response.ServiceRequestID())
}

func operationOf(err error) string {
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		return operation.Operation()
	}
	return ""
}

func statusOf(err error) int {
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// ItemError returns the error about one item of a call that succeeded for others.
func ItemError(code, message string) error {
	return &Error{Code: classifyCode("", code, 0), Message: message}
}
