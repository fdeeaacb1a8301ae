package cloudtrail

import (
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// class is a class of events that is bounded on its own.
type class uint8

const (
	change class = iota
	refusal
	read
	classes
)

func (c class) String() string { return [...]string{"change", "refusal", "read"}[c] }

// dataEvents are the operations of which AWS makes no management events.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/logging-data-events-with-cloudtrail.html
var dataEvents = map[string][]string{
	"eks-auth":   {"AssumeRoleForPodIdentity"},
	"logs":       {"GetLogEvents", "PutLogEvents"},
	"monitoring": {"GetMetricData", "GetMetricStatistics", "GetMetricWidgetImage", "PutMetricData"},
}

// isManagement reports whether requests for an operation are management events.
func isManagement(service *wire.Service, operation string) bool {
	return !slices.Contains(dataEvents[service.SigningName], operation)
}

// readVerbs begin the names of operations that change nothing.
var readVerbs = []string{"BatchCheck", "BatchDescribe", "BatchGet", "Check", "Decode", "Describe", "Estimate", "Filter",
	"Get", "Head", "List", "Lookup", "Preview", "Query", "Search", "Simulate", "Validate"}

// readOperations are the operations that AWS counts as reading beside those whose names say so.
var readOperations = map[string][]string{
	"kms": {"Decrypt", "DeriveSharedSecret", "Encrypt", "GenerateDataKey", "GenerateDataKeyPair",
		"GenerateDataKeyPairWithoutPlaintext", "GenerateDataKeyWithoutPlaintext", "GenerateMac", "GenerateRandom",
		"ReEncrypt", "Sign", "Verify", "VerifyMac"},
	"logs": {"StartLiveTail", "StartQuery", "StopQuery", "TestMetricFilter"},
	"sts":  {"AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity"},
}

// isReadOnly reports whether an operation changes nothing.
func isReadOnly(service *wire.Service, operation string) bool {
	return slices.Contains(readOperations[service.SigningName], operation) ||
		slices.ContainsFunc(readVerbs, func(verb string) bool { return strings.HasPrefix(operation, verb) })
}

// givesCredentials reports whether an operation, though it changes nothing, has a response that events show.
func givesCredentials(service *wire.Service, operation string) bool {
	return service == wire.STS && (strings.HasPrefix(operation, "AssumeRole") || operation == "GetFederationToken" ||
		operation == "GetSessionToken")
}

// classOf returns the class of the event of a request; false for a request of which there is none.
func classOf(a *wire.Answered) (class, bool) {
	switch reads := isReadOnly(a.Service, a.Operation); {
	case !isManagement(a.Service, a.Operation):
		return 0, false
	case a.Denied, a.ErrorCode != "" && !reads:
		// Requests that are invalid need no permission, and may not displace what was changed.
		return refusal, true
	case !reads, !a.InProcess && givesCredentials(a.Service, a.Operation):
		return change, true
	default:
		// What controllers read to find out what there is to do would be nearly all that is read.
		return read, !a.InProcess
	}
}
