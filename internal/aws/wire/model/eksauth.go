package model

import (
	smithy "github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"
)

// The newest version of the SDK's package eksauth on the Go proxy (v1.1.0) is older than the SDK's schemas: those of
// its one operation are here, and its constraints in data/eksauth.txt.
//
// https://docs.aws.amazon.com/eks/latest/APIReference/API_auth_AssumeRoleForPodIdentity.html
func init() {
	id := func(name string) smithy.ShapeID {
		return smithy.ShapeID{Namespace: "com.amazonaws.eksauth", Name: name}
	}
	structure := func(name string, members map[string]*smithy.Schema) *smithy.Schema {
		s := smithy.NewSchema(id(name), smithy.ShapeTypeStructure, len(members))
		for member, shape := range members {
			s.AddMember(member, shape)
		}
		return s
	}
	texts := func(names ...string) map[string]*smithy.Schema {
		members := map[string]*smithy.Schema{}
		for _, name := range names {
			members[name] = scalars["s"]
		}
		return members
	}
	credentials := texts("accessKeyId", "secretAccessKey", "sessionToken")
	credentials["expiration"] = scalars["t"]
	request := structure("AssumeRoleForPodIdentityRequest", texts("token"))
	request.AddMember("clusterName", scalars["s"], &traits.HTTPLabel{})
	errors := map[string]*smithy.Schema{}
	for name, status := range map[string]int{
		"AccessDeniedException": 400, "ExpiredTokenException": 400, "InternalServerException": 500,
		"InvalidParameterException": 400, "InvalidRequestException": 400, "InvalidTokenException": 400,
		"ResourceNotFoundException": 404, "ServiceUnavailableException": 503, "ThrottlingException": 429,
	} {
		errors[name] = smithy.NewSchema(id(name), smithy.ShapeTypeStructure, 1, &traits.HTTPError{Code: status})
		errors[name].AddMember("message", scalars["s"])
	}
	shipped["eksauth"] = &shippedSchemas{
		operations: map[string][3]*smithy.Schema{"AssumeRoleForPodIdentity": {
			smithy.NewSchema(id("AssumeRoleForPodIdentity"), smithy.ShapeTypeOperation, 0, &traits.HTTP{Method: "POST",
				URI: "/clusters/{clusterName}/assume-role-for-pod-identity", Code: 200}),
			request,
			structure("AssumeRoleForPodIdentityResponse", map[string]*smithy.Schema{
				"assumedRoleUser":        structure("AssumedRoleUser", texts("arn", "assumeRoleId")),
				"audience":               scalars["s"],
				"credentials":            structure("Credentials", credentials),
				"podIdentityAssociation": structure("PodIdentityAssociation", texts("associationArn", "associationId")),
				"subject":                structure("Subject", texts("namespace", "serviceAccount")),
			}),
		}},
		errors: errors,
	}
}
