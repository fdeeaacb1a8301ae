package wire

import (
	"net/http"
	"slices"
)

// Protocol is an AWS wire protocol.
// https://smithy.io/2.0/aws/protocols/index.html
type Protocol string

// The protocols that wire speaks.
const (
	RestJSON1 Protocol = "restJson1"
	AWSJSON10 Protocol = "awsJson1.0"
	AWSJSON11 Protocol = "awsJson1.1"
	AWSQuery  Protocol = "awsQuery"
	EC2Query  Protocol = "ec2Query"
	// RPCv2CBOR is for services that are asked by it, by awsJson1.0 or by awsQuery, see anyProtocol.
	RPCv2CBOR Protocol = "rpcv2Cbor"
	// RestXML is for services whose requests are forwarded alone, see [Mux.Forward].
	RestXML Protocol = "restXml"
)

// Service describes an AWS service to the [Mux].
type Service struct {
	Name         string   // the SDK's package: elasticloadbalancingv2
	SigningName  string   // in the credential scope: elasticloadbalancing
	ActionPrefix string   // in IAM actions: elasticloadbalancing
	Protocol     Protocol //
	APIVersion   string   // 2015-12-01
	TargetPrefix string   // before the operation in X-Amz-Target; empty unless awsJson or rpcv2Cbor
	XMLNamespace string   // of responses; empty unless awsQuery, ec2Query or rpcv2Cbor
	PageSize     int      // items on a page when the caller names no maximum; 0 means all
	// BodyLimit returns the maximum size in bytes of a request's body that is read before the request has its turn; 0
	// when it is a payload. It is for services whose protocol is RestXML, and optional.
	BodyLimit func(*http.Request) int64

	// takesEmptyMaps is set where an optional map that is empty is none, whatever minimum the model has: EKS takes the
	// empty tags that eksctl sends with Fargate profiles.
	takesEmptyMaps bool

	// oldTarget comes before the operation in X-Amz-Target of some clients, such as the AWS CLI, instead of TargetPrefix.
	oldTarget string
	// unchecked are the members of inputs that the service's handlers check themselves, with codes of their own.
	unchecked []string
	// queryCompatible is set where clients that spoke awsQuery before are told what errors were called there.
	queryCompatible bool

	// longest is the maximum length of a text in a request of a query protocol, where the model has none; 131,072 when 0.
	longest float64

	invalid  string // code of inputs that break a constraint; empty for ec2, which has several
	mismatch string // code of a client token that comes again with other parameters
	badToken string // code of a page token that is not ours
}

// The services that wire knows. No operation of SQS is served. Clients of EKS call them
// nevertheless, such as eksctl and the AWS Load Balancer Controller: they get NotImplemented with the name of the
// operation, in the protocol of the service, once their signature has been verified. A service that is not here answers
// UnknownService in a protocol that is guessed.
var (
	ACM = &Service{
		Name: "acm", SigningName: "acm", ActionPrefix: "acm", Protocol: AWSJSON11, APIVersion: "2015-12-08",
		TargetPrefix: "CertificateManager", PageSize: 1000,
		invalid: "ValidationException", mismatch: "ValidationException", badToken: "InvalidArgsException",
	}
	AutoScaling = &Service{
		Name: "autoscaling", SigningName: "autoscaling", ActionPrefix: "autoscaling", Protocol: AWSQuery,
		APIVersion:   "2011-01-01",
		XMLNamespace: "http://autoscaling.amazonaws.com/doc/2011-01-01/", PageSize: 50,
		invalid: "ValidationError", mismatch: "IdempotentParameterMismatch", badToken: "InvalidNextToken",
	}
	CloudFormation = &Service{
		Name: "cloudformation", SigningName: "cloudformation", ActionPrefix: "cloudformation", Protocol: AWSQuery,
		APIVersion:   "2010-05-15",
		XMLNamespace: "http://cloudformation.amazonaws.com/doc/2010-05-15/", PageSize: 100,
		longest: 1 << 20, // templates
		invalid: "ValidationError", mismatch: "TokenAlreadyExistsException", badToken: "ValidationError",
	}
	CloudTrail = &Service{
		Name: "cloudtrail", SigningName: "cloudtrail", ActionPrefix: "cloudtrail", Protocol: AWSJSON11,
		APIVersion: "2013-11-01", TargetPrefix: "CloudTrail_20131101", PageSize: 50,
		oldTarget: "com.amazonaws.cloudtrail.v20131101.CloudTrail_20131101",
		unchecked: []string{"AttributeKey", "AttributeValue", "EventCategory", "MaxResults"},
		invalid:   "ValidationException", mismatch: "ValidationException", badToken: "InvalidNextTokenException",
	}
	CloudWatch = &Service{
		Name: "cloudwatch", SigningName: "monitoring", ActionPrefix: "cloudwatch", Protocol: RPCv2CBOR,
		APIVersion: "2010-08-01", TargetPrefix: "GraniteServiceVersion20100801",
		XMLNamespace: "http://monitoring.amazonaws.com/doc/2010-08-01/", PageSize: 500, queryCompatible: true,
		invalid: "ValidationError", mismatch: "ValidationError", badToken: "InvalidNextToken",
	}
	EC2 = &Service{
		Name: "ec2", SigningName: "ec2", ActionPrefix: "ec2", Protocol: EC2Query, APIVersion: "2016-11-15",
		XMLNamespace: "http://ec2.amazonaws.com/doc/2016-11-15/",
		mismatch:     "IdempotentParameterMismatch", badToken: "InvalidParameterValue",
	}
	ECR = &Service{
		Name: "ecr", SigningName: "ecr", ActionPrefix: "ecr", Protocol: AWSJSON11, APIVersion: "2015-09-21",
		TargetPrefix: "AmazonEC2ContainerRegistry_V20150921", PageSize: 100,
		invalid: "InvalidParameterException", mismatch: "InvalidParameterException",
		badToken: "InvalidParameterException",
	}
	EFS = &Service{
		Name: "efs", SigningName: "elasticfilesystem", ActionPrefix: "elasticfilesystem", Protocol: RestJSON1,
		APIVersion: "2015-02-01", PageSize: 100,
		invalid: "ValidationException", mismatch: "ValidationException", badToken: "BadRequest",
	}
	EKS = &Service{
		Name: "eks", SigningName: "eks", ActionPrefix: "eks", Protocol: RestJSON1, APIVersion: "2017-11-01",
		PageSize: 100, takesEmptyMaps: true,
		invalid: "InvalidParameterException", mismatch: "InvalidParameterException",
		badToken: "InvalidParameterException",
	}
	EKSAuth = &Service{
		Name: "eksauth", SigningName: "eks-auth", ActionPrefix: "eks-auth", Protocol: RestJSON1,
		APIVersion: "2023-11-26",
		invalid:    "InvalidParameterException", mismatch: "InvalidParameterException",
		badToken: "InvalidParameterException",
	}
	ELB = &Service{
		Name: "elasticloadbalancing", SigningName: "elasticloadbalancing", ActionPrefix: "elasticloadbalancing",
		Protocol: AWSQuery, APIVersion: "2012-06-01",
		XMLNamespace: "http://elasticloadbalancing.amazonaws.com/doc/2012-06-01/", PageSize: 400,
		invalid: "ValidationError", mismatch: "ValidationError", badToken: "ValidationError",
	}
	ELBv2 = &Service{
		Name: "elasticloadbalancingv2", SigningName: "elasticloadbalancing", ActionPrefix: "elasticloadbalancing",
		Protocol: AWSQuery, APIVersion: "2015-12-01",
		XMLNamespace: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/", PageSize: 400,
		invalid: "ValidationError", mismatch: "IdempotentParameterMismatch", badToken: "ValidationError",
	}
	IAM = &Service{
		Name: "iam", SigningName: "iam", ActionPrefix: "iam", Protocol: AWSQuery, APIVersion: "2010-05-08",
		XMLNamespace: "https://iam.amazonaws.com/doc/2010-05-08/", PageSize: 100,
		invalid: "ValidationError", mismatch: "IdempotentParameterMismatch", badToken: "ValidationError",
	}
	KMS = &Service{
		Name: "kms", SigningName: "kms", ActionPrefix: "kms", Protocol: AWSJSON11, APIVersion: "2014-11-01",
		TargetPrefix: "TrentService", PageSize: 50,
		invalid: "ValidationException", mismatch: "ValidationException", badToken: "InvalidMarkerException",
	}
	Logs = &Service{
		Name: "cloudwatchlogs", SigningName: "logs", ActionPrefix: "logs", Protocol: AWSJSON11,
		APIVersion: "2014-03-28", TargetPrefix: "Logs_20140328", PageSize: 50,
		invalid: "InvalidParameterException", mismatch: "InvalidParameterException",
		badToken: "InvalidParameterException",
	}
	Shield = &Service{
		Name: "shield", SigningName: "shield", ActionPrefix: "shield", Protocol: AWSJSON11, APIVersion: "2016-06-02",
		TargetPrefix: "AWSShield_20160616", PageSize: 100,
		invalid: "ValidationException", mismatch: "ValidationException", badToken: "InvalidPaginationTokenException",
	}
	SQS = &Service{
		Name: "sqs", SigningName: "sqs", ActionPrefix: "sqs", Protocol: AWSJSON10, APIVersion: "2012-11-05",
		TargetPrefix: "AmazonSQS", PageSize: 1000, queryCompatible: true,
		invalid: "InvalidParameterValueException", mismatch: "InvalidParameterValueException",
		badToken: "InvalidParameterValueException",
	}
	SSM = &Service{
		Name: "ssm", SigningName: "ssm", ActionPrefix: "ssm", Protocol: AWSJSON11, APIVersion: "2014-11-06",
		TargetPrefix: "AmazonSSM", PageSize: 50,
		invalid: "ValidationException", mismatch: "IdempotentParameterMismatch", badToken: "InvalidNextToken",
	}
	STS = &Service{
		Name: "sts", SigningName: "sts", ActionPrefix: "sts", Protocol: AWSQuery, APIVersion: "2011-06-15",
		XMLNamespace: "https://sts.amazonaws.com/doc/2011-06-15/", PageSize: 100,
		invalid: "ValidationError", mismatch: "IdempotentParameterMismatch", badToken: "ValidationError",
	}
	WAFRegional = &Service{
		Name: "wafregional", SigningName: "waf-regional", ActionPrefix: "waf-regional", Protocol: AWSJSON11,
		APIVersion: "2016-11-28", TargetPrefix: "AWSWAF_Regional_20161128", PageSize: 100,
		invalid: "ValidationException", mismatch: "ValidationException", badToken: "WAFInvalidParameterException",
	}
	WAFv2 = &Service{
		Name: "wafv2", SigningName: "wafv2", ActionPrefix: "wafv2", Protocol: AWSJSON11, APIVersion: "2019-07-29",
		TargetPrefix: "AWSWAF_20190729", PageSize: 100,
		invalid: "ValidationException", mismatch: "ValidationException", badToken: "WAFInvalidParameterException",
	}
)

// Services lists every service that wire knows, by the name of its SDK package.
func Services() []*Service {
	return []*Service{ACM, AutoScaling, CloudFormation, CloudTrail, CloudWatch, Logs, EC2, ECR, EFS, EKS, EKSAuth, ELB,
		ELBv2, IAM, KMS, Shield, SQS, SSM, STS, WAFRegional, WAFv2}
}

// isJSONProtocol reports whether the service speaks a JSON protocol, or one that is like it but for the bytes.
func (s *Service) isJSONProtocol() bool {
	return s.Protocol == RestJSON1 || s.Protocol == AWSJSON10 || s.Protocol == AWSJSON11 || s.Protocol == RPCv2CBOR
}

// isServed reports whether wire knows the operations of the service. Requests for others are forwarded.
func (s *Service) isServed() bool { return slices.Contains(Services(), s) }
